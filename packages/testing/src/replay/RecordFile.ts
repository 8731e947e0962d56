import type { Message } from "@bowline/domain/session/Message"
import type { Line } from "@bowline/runtime/unstable/record/PlanExport"
import { Result, Schema } from "effect"
import { gunzipSync } from "node:zlib"

const isWritten = <A>(_value: unknown): _value is A => true

/** What a line says has the shape that its writer gave it: the schema of the file says which. */
export const written = <A>(value: unknown): A => {
  if (!isWritten<A>(value)) throw new Error("Expected what the record has")
  return value
}

export type Fields = Readonly<Record<string, unknown>>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {}

export const listOf = (value: unknown): ReadonlyArray<Fields> => (Array.isArray(value) ? value.map(fieldsOf) : [])

/** What a text says in JSON; undefined if it is none. */
export const parsed = (text: string): Schema.Json | undefined => {
  try {
    return written<Schema.Json>(JSON.parse(text))
  } catch {
    return undefined
  }
}

type Of<Type extends Line["type"]> = Extract<Line, { readonly type: Type }>
export type RecordedFrame = Of<"frame">
/** With the number of frames in front of it. */
export type RecordedAttempt = Of<"attempt"> & { readonly place: number }
export type RecordedCall = Of<"call">

/** Where another process went on with the plan, with this one of its `begins`: so many frames, attempts, allowances, and looks in vain for a credential, stand in front of it. */
interface Takeover {
  readonly begin: number
  readonly frames: number
  readonly attempts: number
  readonly allowances: number
  readonly blocked: number
}

/** What is on record of one plan, by what its lines are. */
export interface PlanRecording {
  readonly plan: Of<"plan">["plan"]
  readonly version: string
  readonly preferences: Of<"preferences">["preferences"] | undefined
  /** What the protocol in which it was asked says besides, and of which plan it is a fork. */
  readonly ofEdge: Pick<Of<"preferences">, "fork" | "instructions" | "legs" | "sampling">
  readonly texts: ReadonlyMap<string, string>
  /** Of the session: those before the plan, and its own. */
  readonly messages: ReadonlyArray<Message>
  readonly begins: ReadonlyArray<Of<"begin">>
  readonly takeovers: ReadonlyArray<Takeover>
  /** Each with the number of frames in front of it. */
  readonly sources: ReadonlyArray<Of<"sources"> & { readonly place: number }>
  readonly attempts: ReadonlyArray<RecordedAttempt>
  /** Each with the number of attempts in front of it. */
  readonly blocked: ReadonlyArray<Of<"blocked"> & { readonly place: number }>
  readonly frames: ReadonlyArray<RecordedFrame>
  readonly calls: ReadonlyArray<RecordedCall>
  readonly allowances: ReadonlyArray<Of<"allowance">>
  readonly claims: ReadonlyArray<Of<"claim">>
  /** Each with the number of frames in front of it. */
  readonly givens: ReadonlyArray<Of<"given"> & { readonly place: number }>
  readonly entries: ReadonlyArray<Of<"entry">["entry"]>
  /** Files that other lines name. Exports of earlier versions have none. */
  readonly named: ReadonlyArray<Of<"named">>
  /** Those that `bowline export --files` has brought. */
  readonly files: ReadonlyArray<Of<"file">>
}

const isLine = (value: unknown): value is Line =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string"

/** A plan that was parked is none that was taken over: it was woken in between. */
const takeoversIn = (lines: ReadonlyArray<Line>): ReadonlyArray<Takeover> => {
  const takeovers: Array<Takeover> = []
  const count = { begin: 0, frame: 0, attempt: 0, allowance: 0, blocked: 0 }
  let hasProcess = false
  for (const line of lines) {
    if (line.type === "begin") {
      const { allowance: allowances, attempt: attempts, begin, blocked, frame: frames } = count
      if (hasProcess && line.resumed === true) takeovers.push({ begin, frames, attempts, allowances, blocked })
      hasProcess = true
    }
    if (line.type === "frame" && line.event === "woken") hasProcess = false
    if (line.type in count) count[written<keyof typeof count>(line.type)]++
  }
  return takeovers
}

const AnyFields = Schema.Record(Schema.String, Schema.Unknown)

/** The fields that a line has to have, by its type: without them a replay cannot run the plan or name a difference. */
const least = {
  plan: Schema.Struct({
    plan: Schema.Struct({ plan_id: Schema.NonEmptyString, caller: Schema.String, created_at: Schema.String })
  }),
  text: Schema.Struct({ digest: Schema.String, text: Schema.String }),
  message: Schema.Struct({ message_id: Schema.String, parts: Schema.Array(AnyFields) }),
  sources: Schema.Struct({ sources: AnyFields }),
  frame: Schema.Struct({ event: Schema.String, data: AnyFields })
}
const decoders = new Map(
  Object.entries(least).map(([type, shape]) => {
    const plain: Schema.ConstraintDecoder<unknown> = shape
    return [type, Schema.decodeUnknownResult(plain)] as const
  })
)

/** Fails with what a line of this schema does not have. */
const check = (line: Line, place: number): void => {
  if (line.type === "plan") {
    const { schema }: { readonly schema: number } = line
    if (schema !== 1) throw new Error(`The record has the schema ${JSON.stringify(schema)}: this version reads 1`)
  }
  const checked = decoders.get(line.type)?.(line)
  if (checked === undefined || Result.isSuccess(checked)) return
  throw new Error(`line ${place}: ${checked.failure.message.replaceAll(/\s+/g, " ")}`)
}

const recordingOf = (lines: ReadonlyArray<Line>): PlanRecording => {
  const of = <Type extends Line["type"]>(type: Type): ReadonlyArray<Of<Type>> =>
    lines.filter((line): line is Of<Type> => line.type === type)
  /** Each with the number of lines of another type in front of it. */
  const placed = <Type extends Line["type"]>(type: Type, other: Line["type"]) => {
    let place = 0
    return lines.flatMap((line) => {
      if (line.type === other) place++
      return line.type === type ? [{ ...written<Of<Type>>(line), place }] : []
    })
  }
  const [head] = of("plan")
  if (head === undefined) throw new Error("Expected a line of the type plan: is this an exported plan?")
  const { fork, instructions, legs, sampling } = of("preferences")[0] ?? {}
  return {
    plan: head.plan,
    version: head.version,
    preferences: of("preferences")[0]?.preferences,
    ofEdge: {
      ...(instructions !== undefined && { instructions }),
      ...(sampling !== undefined && { sampling }),
      ...(legs !== undefined && { legs }),
      ...(fork !== undefined && { fork })
    },
    texts: new Map(of("text").map(({ digest, text }) => [digest, text])),
    messages: of("message"),
    begins: of("begin"),
    takeovers: takeoversIn(lines),
    sources: placed("sources", "frame"),
    attempts: placed("attempt", "frame"),
    blocked: placed("blocked", "attempt"),
    frames: of("frame"),
    calls: of("call"),
    allowances: of("allowance"),
    claims: of("claim"),
    givens: placed("given", "frame"),
    named: of("named"),
    files: of("file"),
    entries: of("entry").map(({ entry }) => entry)
  }
}

const readLine = (text: string, place: number): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`line ${place}: Expected JSON: is the file whole?`)
  }
}

/** The plans of an exported file, in their order: JSON lines, compressed or not. Fails with an error that names the line. */
export const read = (bytes: Uint8Array): ReadonlyArray<PlanRecording> => {
  const isCompressed = bytes[0] === 0x1f && bytes[1] === 0x8b
  const text = (isCompressed ? gunzipSync(bytes) : Buffer.from(bytes)).toString("utf8")
  const plans: Array<Array<Line>> = []
  for (const [index, one] of text.split("\n").entries()) {
    const line = one === "" ? undefined : readLine(one, index + 1)
    if (!isLine(line)) continue
    check(line, index + 1)
    if (line.type === "plan" || plans.length === 0) plans.push([])
    plans.at(-1)?.push(line)
  }
  // A file without lines has no plan, and is refused like one without a line of the type plan.
  return (plans.length === 0 ? [[]] : plans).map(recordingOf)
}
