import type { AnswerEntry, Settling } from "@bowline/domain/plan/Inbox"
import type { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { Option, Schema } from "effect"
import type { OpenWait } from "../store/InboxStore.ts"

type Issues = ReadonlyArray<InvalidRequest["issues"][number]>

const unless = (isRight: boolean, field: string, message: string): Issues =>
  isRight ? [] : [{ path: [field], message }]

/** What is wrong with the fields of an answer to a peer, a form, or a question that sends the person to a URL. */
const answerIssues = ({ action, data, text }: AnswerEntry, { schema, url }: OpenWait): Issues => {
  if (schema === null && url === null) {
    return [
      ...unless(action === undefined, "action", "Expected it only in the answer to an elicitation"),
      ...unless(text !== undefined || data !== undefined, "text", "Expected a text, or data"),
      ...unless(text === undefined || data === undefined, "data", "Expected either a text or data")
    ]
  }
  const noText = unless(text === undefined, "text", "Expected no text: the question takes an action, and data")
  if (url !== null) {
    return [
      ...noText,
      ...unless(action !== undefined, "action", "Expected accept, decline or cancel"),
      ...unless(data === undefined, "data", "Expected no data: the question sends the person to a URL")
    ]
  }
  const isAccepted = action === undefined || action === "accept"
  return [
    ...noText,
    ...unless(
      isAccepted === (data !== undefined),
      "data",
      `Expected ${isAccepted ? "the content of the form" : `none with the action ${action}`}`
    )
  ]
}

/** What is wrong with the fields of an entry that is to settle this. */
export const shapeIssues = (entry: Settling, wait: OpenWait): Issues => {
  if (entry.type === "answer") return answerIssues(entry, wait)
  if (entry.type !== "decision" || entry.decision === "approve") return []
  return [
    ...unless(entry.input === undefined, "input", "Expected other arguments only with the decision approve"),
    ...unless(entry.remember === undefined, "remember", "Expected it only with the decision approve")
  ]
}

/** The part of an entry that has to match a schema. */
export const toCheck = (entry: Settling): { readonly field: string; readonly value: Schema.Json } | undefined => {
  switch (entry.type) {
    case "result":
      return entry.is_error === true ? undefined : { field: "content", value: entry.content }
    case "decision":
      return entry.input === undefined ? undefined : { field: "input", value: entry.input }
    case "answer":
      return entry.data === undefined ? undefined : { field: "data", value: entry.data }
  }
}

export const schemaOf = ({ schema }: OpenWait) => Option.getOrUndefined(decodeSchema(schema))
const decodeSchema = Schema.decodeUnknownOption(Schema.Record(Schema.String, Schema.Json))
