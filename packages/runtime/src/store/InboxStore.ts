import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import type { DecisionEntry, Entry, Settling, TextEntry, Waiting } from "@bowline/domain/plan/Inbox"
import { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { type ClientTool, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { QuestionPart } from "@bowline/domain/unstable/file/QuestionPart"
import type { FileReference } from "@bowline/domain/session/Message"
import { EntryRefused, type IdempotencyConflict, type NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Context, Duration, type Effect, Option, Schema } from "effect"
import { canonicalJson } from "./CanonicalJson.ts"
import type { Page, PageRequest } from "./Page.ts"
import { createHash } from "node:crypto"

/** The call that waits. */
export type WaitId = Pick<PendingApproval, "plan_id" | "task_id">

/** What a call waits for. `timer` is the tool `wait`, which waits for a time, or for any text. */
export type StoredWaitKind = Waiting["kind"] | "timer"

/** What an entry that settles a call is checked against. */
export interface OpenWait {
  readonly kind: StoredWaitKind
  readonly round: number
  readonly tool: string
  /** The JSON Schema of what the entry brings: of a call's other arguments, of a result, or of a form. */
  readonly schema: Schema.Json | null
  /** Where the question sends the person. */
  readonly url: string | null
}

/** A text with what its files are. */
export type StoredTextEntry = TextEntry & { readonly references?: ReadonlyArray<FileReference> }

/** An account is there for which something waits: the gateway says so itself. `task_id` is the id of the wait, and `call` the call that waits, if one does. */
export interface AccountEntry {
  readonly type: "account"
  readonly task_id: TaskId
  readonly call: TaskId | null
}

/** An entry that settles what a call waits for, as it is stored. */
export type StoredSettling = Settling | AccountEntry

/** An entry as it is stored. */
export type StoredEntry = StoredSettling | StoredTextEntry

/** The parts of a text in a message, or in a question. */
export const partsOf = ({
  references = [],
  text
}: Pick<StoredTextEntry, "references" | "text">): ReadonlyArray<QuestionPart> => [{ type: "text", text }, ...references]

/** Something that is said to a plan. `owner` is the caller whose plan it has to be; without one it may be anybody's. */
export interface Accepting {
  readonly plan_id: PlanId
  readonly entry_id: EntryId
  readonly by: CallerName
  readonly owner: CallerName | undefined
  readonly entry: StoredEntry
  /** The tools that the client has from the next step on, if they are others than before. */
  readonly tools?: ReadonlyArray<ClientTool> | undefined
}

/**
 * What has become of an entry as it came. `Known` is one that was there before: the same one again, or one that has settled the call with the same
 * content. `Completed` is a text for a plan that has completed: nothing is written.
 */
export type Accepted =
  | {
      readonly _tag: "Accepted" | "Known"
      readonly entry_id: EntryId
      readonly moved_to: PlanId | null
      /** Of a plan that was parked: it is `woken`, or it stays, and its frame of the entry is written (`told`). */
      readonly parked?: "woken" | "told"
    }
  | { readonly _tag: "Completed"; readonly owner: CallerName }

/** An entry as callers see it. */
export const shownEntry = (
  stored: Omit<Entry, "type" | "task_id" | "text"> & { readonly entry: StoredEntry }
): Entry => {
  const { at, by, entry, entry_id, moved_to, state, step } = stored
  const text = entry.type === "text" ? entry.text : null
  const task_id = entry.type === "text" ? null : entry.type === "account" ? entry.call : entry.task_id
  return { entry_id, type: entry.type, by, at, state, task_id, step, moved_to, text }
}

/** A text that the plan has not taken. `isTold` says whether readers have seen it in its present state. */
export interface StoredText extends Pick<StoredTextEntry, "text" | "when" | "else" | "references"> {
  readonly entry_id: EntryId
  readonly by: CallerName
  readonly isWithdrawn: boolean
  readonly isTold: boolean
}

/** What somebody has said about a call. A decision that an earlier version has stored has no entry. */
interface Given<E extends StoredSettling = StoredSettling> {
  readonly entry_id: EntryId | null
  readonly by: CallerName
  readonly entry: E
}

/** What has settled a call: an entry, or nobody in time. */
export interface Settlement {
  readonly task_id: TaskId
  readonly round: number
  readonly given: Given | undefined
  /** The digest of the MCP tool that the call is of, as it was when the call began to wait. */
  readonly tool_digest: string | null
  /** A text has ended the wait for a time. No store keeps that. */
  readonly isByText?: true
}

/** What a plan's inbox has that the plan has not used yet, in the order of acceptance. */
export interface InboxContent {
  readonly plan_id: PlanId
  /** How many entries were accepted or withdrawn, and how many waits were ended, since the plan was created. */
  readonly count: number
  readonly texts: ReadonlyArray<StoredText>
  readonly settlements: ReadonlyArray<Settlement>
  /** The tools that the client has now, if they are others than those of the request. */
  readonly tools: ReadonlyArray<ClientTool> | undefined
}

/** The inbox of a plan to which nothing was said. */
export const emptyInbox = (plan_id: PlanId): InboxContent => ({
  plan_id,
  count: 0,
  texts: [],
  settlements: [],
  tools: undefined
})

/** All entries of it. */
export const entriesOf = ({ settlements, texts }: InboxContent): ReadonlyArray<EntryId> => [
  ...texts.filter(({ isWithdrawn }) => !isWithdrawn).map(({ entry_id }) => entry_id),
  ...settlements.map(({ given }) => given?.entry_id).filter((id) => id != null)
]

/** A wait of a plan that is taken over, and what has settled it. */
export interface StoredWait extends OpenWait {
  readonly task_id: TaskId
  readonly expires_at: string
  /** By what the tool knows its question again, see `CallQuestion`. */
  readonly mark: string | null
  /** How much of its own time the call had used when it began to wait; null if an earlier version has stored it. */
  readonly spent_ms: number | null
  readonly settlement: Settlement | undefined
  /** When the entry came that the call goes on with, if it does: ISO 8601 in UTC. */
  readonly taken_at: string | null
  /** What was decided about the call, also if it waits for something else since. */
  readonly decision: Given<DecisionEntry> | undefined
}

/** The id of a tool that callers know: a digest, since a URL may hold secrets, and a name may be as long as its server likes. */
export type KnownToolId = string

/** The id of a tool of the server at this URL. */
export const knownToolId = (url: string, tool: string): KnownToolId =>
  createHash("sha256")
    .update(canonicalJson([new URL(url).href, tool]))
    .digest("hex")

/** How long a caller knows a tool that none of its plans is offered any more. */
export const knownFor = Duration.days(90)

/** For a tool that is met `now`: until when it is known, and the least expiry that is good enough, so that the plans of a day write once. */
export const knownUntil = (now: string): { readonly expires_at: string; readonly least: string } => {
  const expires = Date.parse(now) + Duration.toMillis(knownFor)
  return { expires_at: fromMillis(expires), least: fromMillis(expires - Duration.toMillis("1 day")) }
}

/** The kind of wait that an entry settles. */
export const settles = { result: "result", answer: "answer", decision: "approval", account: "account" } as const

/** Whether an entry has come twice. */
export const isSame = (a: StoredEntry, b: StoredEntry): boolean => canonicalJson(a) === canonicalJson(b)

/** Whether two entries say the same about one wait of a call. A note is no part of a decision, and who names the round of an answer may leave it out. */
export const saysTheSame = (a: StoredSettling, b: StoredSettling): boolean => {
  if (a.type === "decision" && b.type === "decision") {
    return a.decision === b.decision && canonicalJson(a.input ?? null) === canonicalJson(b.input ?? null)
  }
  if (a.type === "answer" && b.type === "answer") return isSame({ ...a, round: 1 }, { ...b, round: 1 })
  return isSame(a, b)
}

/** A wait for an account. `task_id` is the id of the wait. */
export interface OpenAccountWait extends WaitId {
  readonly round: number
  readonly mark: string | null
}

/** The plans of which waits have ended, since their time is over. */
export interface ExpiredWaits {
  readonly plans: ReadonlyArray<PlanId>
  /** Whether some of them were parked: any replica may take them over now. */
  readonly isWaking: boolean
  /** Whether there may be more. */
  readonly isMore: boolean
}

const decodeTools = Schema.decodeUnknownOption(Schema.Struct({ tools: PlanRequest.fields.tools }))

/** The tools of the client in a stored request. */
export const toolsIn = (stored: unknown): ReadonlyArray<ClientTool> =>
  Option.match(decodeTools(stored), { onNone: () => [], onSome: ({ tools }) => tools })

/** The refusals of an inbox. */
export const refusals = {
  over: new EntryRefused({ code: "plan_over", message: "The plan is over, and takes nothing more" }),
  settled: new EntryRefused({ code: "task_settled", message: "Another entry has settled the call already" }),
  expired: new EntryRefused({ code: "task_settled", message: "The call no longer waits: nobody answered in time" }),
  taken: new EntryRefused({ code: "entry_taken", message: "The entry can no longer be taken back" }),
  full: new EntryRefused({
    code: "inbox_full",
    message: "The plan has too many texts that it has not taken yet. It takes them at its next step: try again then"
  })
} as const

/**
 * What is said to plans after their start (`inbox`), what their calls wait for (`waits`), and the digests by which callers know the
 * tools of MCP servers. Plans write here with their commits; entries are accepted outside of their leases, under the lock of the
 * plan's row: the end of a plan and an acceptance see one another.
 */
export class InboxStore extends Context.Service<
  InboxStore,
  {
    /**
     * Accepts an entry in one transaction, and adds one to the plan's count: a compare-and-swap, of two entries for one call the first one
     * stands. The approval of a call of a changed tool makes the plan's caller know the tool by its new digest. The same `entry_id`
     * again is the same entry, and with other content an `IdempotencyConflict`. A text is refused where too many wait (`inbox_full`).
     */
    readonly accept: (
      accepting: Accepting
    ) => Effect.Effect<Accepted, NotFound | EntryRefused | IdempotencyConflict | StorageError>
    /** Stores a text for a plan that has completed, which is the question of this other plan now. Idempotent. */
    readonly move: (accepting: Accepting, to: PlanId) => Effect.Effect<void, StorageError>
    /** What the call waits for, or waited for last. */
    readonly find: (wait: WaitId, owner: CallerName | undefined) => Effect.Effect<OpenWait, NotFound | StorageError>
    /** The owner's plan of the call that waits, or has waited. */
    readonly planOfCall: (owner: CallerName, task: TaskId) => Effect.Effect<Option.Option<PlanId>, StorageError>
    /** The plan that has the entry. */
    readonly planOf: (entry: EntryId) => Effect.Effect<PlanId | undefined, StorageError>
    /** The tools of the client that the plan has from its next step on. */
    readonly toolsOf: (plan: PlanId) => Effect.Effect<ReadonlyArray<ClientTool>, StorageError>
    /** Takes a text back that was not taken. Idempotent. */
    readonly withdraw: (
      plan: PlanId,
      entry: EntryId,
      owner: CallerName | undefined
    ) => Effect.Effect<void, NotFound | EntryRefused | StorageError>
    /** The entries of a plan, oldest first. */
    readonly list: (
      plan: PlanId,
      owner: CallerName | undefined,
      page: PageRequest
    ) => Effect.Effect<Page<Entry>, NotFound | StorageError>
    /**
     * Ends the waits whose time is over, some at once, as an entry would: adds to the counts of their plans, and wakes those that are parked. Gives the
     * plans that have more in their inboxes now.
     */
    readonly expire: Effect.Effect<ExpiredWaits, StorageError>
    /** What is new in the inboxes of these plans, for processes that have read `seen` of them. */
    readonly read: (
      plans: ReadonlyArray<{ readonly plan_id: PlanId; readonly seen: number }>
    ) => Effect.Effect<ReadonlyArray<InboxContent>, StorageError>
    /** What waits for an account in plans of this caller, whichever account that is. */
    readonly accountWaits: (owner: CallerName) => Effect.Effect<ReadonlyArray<OpenAccountWait>, StorageError>
    /** What waits for somebody in plans of this caller, or of all, oldest first. */
    readonly waiting: (
      owner: CallerName | undefined,
      filter: { readonly kind?: Waiting["kind"]; readonly plan?: PlanId },
      page: PageRequest
    ) => Effect.Effect<Page<Waiting>, StorageError>
    /** What waits for a decision in plans of this caller, or of all, or in one, newest first. */
    readonly approvals: (
      owner: CallerName | undefined,
      plan: PlanId | undefined,
      page: PageRequest
    ) => Effect.Effect<Page<PendingApproval>, StorageError>
    /** The decision about a call that stands, if there is one. */
    readonly decision: (wait: WaitId) => Effect.Effect<GivenDecision | undefined, StorageError>
    /** Whether somebody has approved a call of this tool for all plans of the session. */
    readonly isRemembered: (session: SessionId, tool: string) => Effect.Effect<boolean, StorageError>
    /** How many plans in a row have begun with texts that the plan before could not take, up to this one. */
    readonly movesTo: (plan: PlanId) => Effect.Effect<number, StorageError>
    /**
     * Returns the digests by which the owner knows these tools. One that the owner meets for the first time is known by the digest that is
     * given here: of two at once the first one stands. `now` is ISO 8601 in UTC. One read, and at most one write.
     */
    readonly meetTools: (
      owner: CallerName,
      digests: ReadonlyMap<KnownToolId, string>,
      now: string
    ) => Effect.Effect<ReadonlyMap<KnownToolId, string>, StorageError>
  }
>()("@bowline/runtime/store/InboxStore") {}

/** A UUID that is always the same one for these texts. */
export const uuidOf = (texts: ReadonlyArray<string>): string => {
  const hex = createHash("sha256").update(JSON.stringify(texts)).digest("hex")
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** The id, with a UUID that is always the same one for these texts. */
export const keyedId = (texts: ReadonlyArray<string>): EntryId => EntryId.make(`entry_${uuidOf(texts)}`)

/** The entry with this key of all requests of the caller, accepted or not. */
export const entryOf = (caller: CallerName, key: string): EntryId => keyedId([caller, key])
