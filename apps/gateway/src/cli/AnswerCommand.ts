import type { AcceptedEntry, Bowline, NewEntry, Waiting } from "@bowline/client"
import { Effect, Option, Result, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Ended, exitCodes } from "./Ended.ts"
import * as GatewayClient from "./GatewayClient.ts"
import { printLine } from "./Output.ts"
import * as PageFlags from "./PageFlags.ts"
import * as TextTable from "./TextTable.ts"
import { toJson } from "./TerminalText.ts"

const decodeJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))
const decodeObject = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

const text = (name: string, description: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.optional)
const json = (name: string, description: string) =>
  Flag.String(name).pipe(
    Flag.withDescription(description),
    Flag.filterMap(decodeJson, () => "Expected JSON"),
    Flag.optional
  )
const word = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

const parameters = {
  plan: Argument.String("plan").pipe(Argument.withDescription("The id of the plan")),
  task: Argument.String("task").pipe(
    Argument.withDescription("The id of the call that waits, as bowline waiting says it")
  ),
  approve: word("approve", "The call may be made"),
  reject: word("reject", "The call is not made"),
  note: text("note", "Why, for the model: with --approve and --reject"),
  input: Flag.String("input").pipe(
    Flag.withDescription("Other arguments for the call, as a JSON object: with --approve"),
    Flag.filterMap(decodeObject, () => "Expected a JSON object"),
    Flag.optional
  ),
  remember: Flag.Literals("remember", ["plan", "session"]).pipe(
    Flag.withDescription("Where this tool needs no further approval: with --approve"),
    Flag.optional
  ),
  text: text("text", "The answer to who asks, or a result"),
  data: json("data", "The same as JSON: the content of a form"),
  action: Flag.Literals("action", ["accept", "decline", "cancel"]).pipe(
    Flag.withDescription("What becomes of a form"),
    Flag.optional
  ),
  result: json("result", "The result of a tool of the client, as JSON"),
  error: text("error", "Why a tool of the client has failed"),
  json: PageFlags.json
}

type Given = Command.Command.Config.Infer<typeof parameters>

type Kind = Waiting["kind"]

const wanted: Readonly<Record<Kind, string>> = {
  approval: "--approve or --reject",
  result: "--result or --error",
  answer: "--text, --data or --action",
  account: "nothing: the plan goes on by itself when its caller comes again"
}

const isGiven = (...options: ReadonlyArray<Option.Option<unknown>>): boolean =>
  options.some((option) => Option.isSome(option))

const keys = <A>(given: Readonly<Record<string, Option.Option<A>>>): Readonly<Record<string, A>> =>
  Object.fromEntries(Object.entries(given).flatMap(([key, one]) => (Option.isSome(one) ? [[key, one.value]] : [])))

/** What the flags say by themselves. */
const kindOf = ({ action, approve, data, error, reject, result, text }: Given): Kind | undefined => {
  if (approve || reject) return "approval"
  if (isGiven(result, error)) return "result"
  return isGiven(action, data, text) ? "answer" : undefined
}

/** The entry that the flags make for what waits: an error is a line about the flags. */
export const toEntry = (given: Given, kind: Kind | undefined): Result.Result<NewEntry, string> => {
  const { action, approve, data, error, input, note, reject, remember, result, task: task_id, text } = given
  const said = kindOf(given)
  const meant = kind ?? said
  // What is said to who asks can be the result of a tool, too.
  const isMeant = said === meant || (meant === "result" && said === "answer" && Option.isNone(action))
  const ofDecision = isGiven(note, input, remember)
  const answers = [approve, reject, ...[data, error, result, text].map((one) => isGiven(one))].filter((is) => is)
  if (meant === undefined) return Result.fail(`Expected ${wanted.approval}, ${wanted.result}, ${wanted.answer}`)
  if (!isMeant || meant === "account") return Result.fail(`${task_id} waits for ${meant}: expected ${wanted[meant]}`)
  if (answers.length > 1) return Result.fail("Expected one answer, and not several")
  if (ofDecision && meant !== "approval")
    return Result.fail("--note, --input and --remember are for --approve and --reject")
  if (!approve && isGiven(input, remember)) return Result.fail("--input and --remember are for --approve")
  switch (meant) {
    case "approval":
      return Result.succeed({
        type: "decision",
        task_id,
        decision: approve ? "approve" : "reject",
        ...keys({ note }),
        ...keys({ input }),
        ...keys({ remember })
      })
    case "result": {
      const content = Option.firstSomeOf([error, result, data, text])
      if (Option.isNone(content)) return Result.fail(`Expected ${wanted.result}`)
      const failed = Option.isSome(error) ? { is_error: true } : {}
      return Result.succeed({ type: "result", task_id, content: content.value, ...failed })
    }
    case "answer":
      return Result.succeed({ type: "answer", task_id, ...keys({ text }), ...keys({ data }), ...keys({ action }) })
  }
}

const find = async (bowline: Bowline, { plan, task }: Given, options: { readonly signal: AbortSignal }) => {
  for await (const one of bowline.waiting.list({ limit: 200 }, options)) {
    if (one.plan_id === plan && one.task_id === task) return one.kind
  }
  // Of another caller, or settled: the gateway says it.
  return undefined
}

const columns: ReadonlyArray<TextTable.Column<AcceptedEntry>> = [
  ["ENTRY", ({ entry_id }) => entry_id],
  ["PLAN", ({ plan_id }) => plan_id]
]

/** Answers what waits for somebody. */
export const answer = Command.make(
  "answer",
  parameters,
  Effect.fnUntraced(function* (given) {
    if (kindOf(given) === undefined) yield* misused(toEntry(given, undefined))
    const kind = yield* GatewayClient.request((bowline, options) => find(bowline, given, options))
    const entry = yield* misused(toEntry(given, kind))
    const accepted = yield* GatewayClient.request((bowline, options) => bowline.inbox.send(given.plan, entry, options))
    yield* given.json ? printLine(toJson(accepted)) : TextTable.print(columns, [accepted], "")
  })
).pipe(Command.withDescription("Answer what waits: decide about a call, give its result, or answer who asks"))

const misused = <A>(made: Result.Result<A, string>) =>
  Effect.mapError(
    Effect.fromResult(made),
    (line) => new Ended({ code: exitCodes.usage, lines: [`${line} (see bowline answer --help)`] })
  )
