import type { PlanView } from "@bowline/client"
import { Result, Schema } from "effect"
import { createHash } from "node:crypto"
import { gunzipSync } from "node:zlib"
import { type PlanRecording, read } from "../replay/RecordFile.ts"
import { Expectation, problemOf, type Verdict } from "./Expectation.ts"

/** What a check gets to know besides the plan. */
export interface Checked {
  readonly id: string
  readonly question: string
}

/** What says whether a plan is good: the default export of a file of checks. */
export type Check = (view: PlanView, checked: Checked) => ReadonlyArray<Verdict> | Promise<ReadonlyArray<Verdict>>

/** A plan that is run again, or a question: with what is expected of it. */
export interface EvalCase extends Checked {
  readonly recording?: PlanRecording | undefined
  /** The body of `POST /plan`. */
  readonly request?: Readonly<Record<string, Schema.Json>> | undefined
  readonly expect: Expectation
}

const Line = Schema.StructWithRest(
  Schema.Struct({
    id: Schema.optionalKey(Schema.NonEmptyString),
    question: Schema.optionalKey(Schema.Union([Schema.NonEmptyString, Schema.Array(Schema.Json)])),
    expect: Schema.optionalKey(Expectation)
  }),
  [Schema.Record(Schema.String, Schema.Json)]
)
const decodeLine = Schema.decodeUnknownResult(Schema.fromJsonString(Line), { onExcessProperty: "error" })

const decodeParts = Schema.decodeUnknownResult(Schema.Array(Schema.Struct({ text: Schema.optionalKey(Schema.String) })))

const textOf = (question: unknown): string =>
  typeof question === "string"
    ? question
    : Result.match(decodeParts(question), {
        onFailure: () => "",
        onSuccess: (parts) => parts.map(({ text = "" }) => text).join("\n")
      })

/** A line of a record says of which type it is. */
const isRecorded = (line: string): boolean => /^\s*\{\s*"type"\s*:/.test(line)

const digestOf = (question: Schema.Json): string =>
  createHash("sha256").update(JSON.stringify(question)).digest("base64url").slice(0, 12)

/** A file of cases, by its path. */
export interface CaseFile {
  readonly path: string
  readonly bytes: Uint8Array
}

/** What a file gives, or an error that names it. */
const ofFile = <A>(path: string, read: () => A): A => {
  try {
    return read()
  } catch (error) {
    throw new Error(`${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}

const decompressed = (bytes: Uint8Array): string =>
  (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : Buffer.from(bytes)).toString("utf8")

interface Lines {
  readonly cases: Array<EvalCase>
  /** What is expected of a plan that one of the files has, by its id. */
  readonly expectations: Map<string, { readonly place: string; readonly expect: Expectation }>
}

const readLine = (text: string, place: string, { cases, expectations }: Lines): void => {
  const decoded = decodeLine(text)
  if (Result.isFailure(decoded)) throw new Error(`${place}: ${decoded.failure.message.replaceAll(/\s+/g, " ")}`)
  const { expect = {}, id, question, ...rest } = decoded.success
  const problem = problemOf(expect)
  if (problem !== undefined) throw new Error(`${place}: ${problem}`)
  if (question !== undefined) {
    cases.push({
      id: id ?? digestOf(question),
      question: textOf(question),
      request: { ...rest, question },
      expect
    })
  } else if (id === undefined) throw new Error(`${place}: Expected a question, or the id of an exported plan`)
  else expectations.set(id, { place, expect })
}

/**
 * The cases of these files: exported plans, and JSON lines `{id?, question, expect?}` with whatever else `POST /plan` takes. A line without a question says what is expected of the
 * exported plan with its `id`. Fails with an error that names the file and the line.
 */
export const readCases = (files: ReadonlyArray<CaseFile>): ReadonlyArray<EvalCase> => {
  const found: Lines = { cases: [], expectations: new Map() }
  for (const { bytes, path } of files) {
    const lines = ofFile(path, () => decompressed(bytes)).split("\n")
    // The others stay as empty lines, so that an error has the number of its line.
    const recorded = Buffer.from(lines.map((line) => (isRecorded(line) ? line : "")).join("\n"))
    for (const recording of lines.some(isRecorded) ? ofFile(path, () => read(recorded)) : []) {
      const { plan_id: id, question } = recording.plan
      found.cases.push({ id, question, recording, expect: {} })
    }
    for (const [index, line] of lines.entries()) {
      if (line.trim() !== "" && !isRecorded(line)) readLine(line, `${path}, line ${index + 1}`, found)
    }
  }
  const cases = found.cases.map((one) => ({ ...one, expect: found.expectations.get(one.id)?.expect ?? one.expect }))
  const ids = new Set(cases.map(({ id }) => id))
  for (const [id, { place }] of found.expectations) {
    if (!ids.has(id)) throw new Error(`${place}: Expected a question: no file has an exported plan ${id}`)
  }
  if (ids.size < cases.length) {
    const twice = cases.find(({ id }, index) => cases.findIndex((one) => one.id === id) < index)
    throw new Error(`Two cases are called ${twice?.id ?? ""}: give one of them an id of its own`)
  }
  if (cases.length === 0) throw new Error("Expected an exported plan, or a line with a question")
  return cases
}
