import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, type Plan, type PlanId } from "@bowline/domain/plan/Plan"
import { EventsExpired, type NotFound } from "@bowline/domain/plan/Refusal"
import type { Entry } from "@bowline/domain/plan/Inbox"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import type { Message, MessageId } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Option, Predicate, Schema, Struct } from "effect"
import { type EventRow, type PlanFrame, toFrames } from "../store/EventRow.ts"
import { allFiles, type FileStore } from "../store/FileStore.ts"
import type { InboxStore } from "../store/InboxStore.ts"
import type { Page, PageRequest } from "../store/Page.ts"
import type { PlanStore, Recorded, RecordedCall } from "../store/PlanStore.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import type { AttemptRecord } from "./AttemptRecord.ts"
import {
  type AllowanceRecord,
  type BeginRecord,
  type ClaimRecord,
  type OperatorRules,
  type SourcesRecord,
  version
} from "./BeginRecord.ts"
import type { BlockedRecord } from "./BlockedRecord.ts"
import type { GivenRecord } from "./GivenRecord.ts"
import { filesIn, type NamedFile, namedFiles } from "./NamedFiles.ts"

export { filesIn }
export type { OperatorRules }

/** The version of the format. Another meaning of a line has another one; new lines and new fields have not. */
export const schema = 1

/** What is recorded with the rows of a plan. */
type Recording =
  | BeginRecord
  | SourcesRecord
  | AttemptRecord
  | AllowanceRecord
  | ClaimRecord
  | GivenRecord
  | BlockedRecord

/**
 * One line of an exported plan, by its `type`. A record stands in front of the frames that were stored with it. Contract: `docs/reference/record.md`.
 */
export type Line =
  | { readonly type: "plan"; readonly schema: typeof schema; readonly version: string; readonly plan: Plan }
  | ({ readonly type: "preferences"; readonly preferences: Recorded["preferences"] } & OfEdge)
  | { readonly type: "text"; readonly digest: string; readonly text: string }
  | ({ readonly type: "message" } & Message)
  | NamedFile
  | Recording
  | { readonly type: "frame"; readonly id: number; readonly event: string; readonly at: string; readonly data: object }
  | ({ readonly type: "call" } & Omit<RecordedCall, "input">)
  | { readonly type: "entry"; readonly entry: Entry }
  | ({ readonly type: "file"; readonly data: string } & StoredFile)

/** What edges in other protocols, and forks, say of a plan besides: `GET /plans/{id}` does not show it. */
const OfEdge = PlanRequest.mapFields(Struct.pick(["instructions", "sampling", "legs", "fork"]))
type OfEdge = typeof OfEdge.Type
/** What keeps a version that knows no forks from running one is no part of the request. */
const unguarded = (request: Schema.Json | null) =>
  Predicate.hasProperty(request, "legs") && request.legs === null ? Struct.omit(request, ["legs"]) : request
const decodeOfEdge = Schema.decodeUnknownOption(OfEdge)

/** From where a plan is read. */
interface Stores {
  readonly store: PlanStore["Service"]
  readonly sessions: SessionStore["Service"]
  readonly inboxes: InboxStore["Service"]
  readonly files: FileStore["Service"]
}

const rowsAtOnce = 500
const entriesAtOnce = 200

const decodeRecord = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Array(Schema.Record(Schema.String, Schema.Json)))
)

const recordings = [
  "begin",
  "sources",
  "attempt",
  "allowance",
  "claim",
  "given",
  "blocked"
] as const satisfies ReadonlyArray<Recording["type"]>

/** What this version has written is what it reads: the line has the type that its writer gave it. */
const isRecording = (record: object): record is Recording =>
  "type" in record && recordings.some((type) => type === record.type)

/** What was recorded with a row. What another version has recorded besides is left out. */
export const recordsOf = ({ record }: EventRow): ReadonlyArray<Recording> =>
  record === undefined ? [] : decodeRecord(record).flatMap((one: object) => (isRecording(one) ? [one] : []))

const decodeData = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

export const allRows = Effect.fnUntraced(function* (store: PlanStore["Service"], id: PlanId) {
  const rows: Array<EventRow> = []
  for (;;) {
    const last = rows.at(-1)
    const page = yield* store.events(id, last === undefined ? 0 : last.seq + last.count - 1, rowsAtOnce)
    if (page.length === 0) return rows
    rows.push(...page)
  }
})

export const all = Effect.fnUntraced(function* <A, E>(read: (page: PageRequest) => Effect.Effect<Page<A>, E>) {
  const items: Array<A> = []
  let cursor: number | null = null
  do {
    const page: Page<A> = yield* read({ limit: entriesAtOnce, ...(cursor !== null && { cursor }) })
    items.push(...page.items)
    cursor = page.next
  } while (cursor !== null)
  return items
})

/** The messages that the plan's prompt began with, and its own, though they were reverted since: those that were reverted before are told by how many there were. */
const messagesOf = Effect.fnUntraced(function* (
  sessions: SessionStore["Service"],
  { plan_id, session_id }: Plan,
  history: BeginRecord["history"] | undefined
) {
  const whole = yield* all((page) => sessions.messages(session_id, { ...page, withReverted: true }))
  const first = whole.findIndex(({ message_id }) => message_id === history?.first)
  const last = whole.findIndex(({ message_id }) => message_id === history?.last)
  let before = new Set<MessageId>(whole.slice(Math.max(first, 0), last + 1).map(({ message_id }) => message_id))
  if (before.size !== (history?.count ?? 0)) {
    const kept = yield* all((page) => sessions.messages(session_id, page))
    before = before.intersection(new Set(kept.map(({ message_id }) => message_id)))
  }
  return whole.filter((message) => message.plan_id === plan_id || before.has(message.message_id))
})

/** The link by which a caller connects an account has a secret: whoever gets the export is not let in by it. */
const withoutLink = ({ event, payload }: PlanFrame): object => {
  const data = decodeData(payload)
  const { kind, url } = data
  return event === "waiting" && kind === "account" && Predicate.isString(url)
    ? { ...data, url: url.replace(/\?.*$/s, "") }
    : data
}

/** All that is on record of a plan, line by line. Fails with `EventsExpired` where its events are kept no longer. */
export const linesOf = Effect.fnUntraced(function* (
  { files, inboxes, sessions, store }: Stores,
  owner: CallerName,
  id: PlanId
): Effect.fn.Return<ReadonlyArray<Line>, EventsExpired | NotFound | StorageError> {
  const plan = yield* store.get(owner, id)
  const rows = yield* allRows(store, id)
  if (rows.length === 0 && isSettled(plan)) return yield* new EventsExpired({ plan_id: id })
  const { calls, preferences, request } = yield* store.recorded(owner, id)
  const ofEdge = Option.getOrElse(decodeOfEdge(unguarded(request)), (): OfEdge => ({}))
  const recorded = rows.map((row) => ({ row, records: recordsOf(row) }))
  const records = recorded.flatMap((one) => one.records)
  const begins = records.filter((record) => record.type === "begin")
  const [begin] = begins
  const digests = records.flatMap((record): ReadonlyArray<string> => {
    if (record.type === "begin") return [record.environment]
    if (record.type !== "sources") return []
    return Object.values(record.sources).flatMap((source) => ("digest" in source ? source.digest : []))
  })
  const texts = yield* store.keptTexts([...new Set(digests)])
  const messages = yield* messagesOf(sessions, plan, begin?.history)
  const entries = yield* all((page) => inboxes.list(id, owner, page))
  const told = recorded.map(({ records, row }) => ({
    records,
    frames: toFrames(row).map((frame) => {
      const { at, event, seq } = frame
      return { type: "frame" as const, id: seq, event, at, data: withoutLink(frame) }
    })
  }))
  const named = filesIn({ messages, begins, frames: told.flatMap(({ frames }) => frames) })
  const there = named.length === 0 ? [] : yield* files.ofSession(plan.session_id, allFiles)
  return [
    { type: "plan", schema, version, plan },
    { type: "preferences", preferences, ...ofEdge },
    ...Array.from(texts, ([digest, text]): Line => ({ type: "text", digest, text })),
    ...messages.map((message): Line => ({ type: "message", ...message })),
    ...namedFiles(named, there),
    ...told.flatMap(({ frames, records }): ReadonlyArray<Line> => [...records, ...frames]),
    // The frame of its start has what it was called with.
    ...calls.map((call): Line => ({ type: "call", ...Struct.omit(call, ["input"]) })),
    ...entries.map((entry): Line => ({ type: "entry", entry }))
  ]
})

/** What says what a line is, or names something: all else is text. */
const kept =
  /(^|_)(id|ids|at|digest|endpoint|type|state|code|kind|role|tool|tool_call|agent|skill|name|event|caller|by|model|credential|preset|stage|reason|stop_reason|version|media_type|why|decision|finish|_tag)$/

/** The same without its texts: each character but white space is an x. Names, ids, states, numbers and the lengths of texts stay. */
export const redact = (value: unknown, key = ""): unknown => {
  if (typeof value === "string") return kept.test(key) ? value : value.replaceAll(/\S/gu, "x")
  if (Array.isArray(value)) return value.map((one) => redact(one, key))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, redact(one, name)]))
}
