import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Decision, GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import type { Entry, NewEntry } from "@bowline/domain/plan/Inbox"
import { EntryId } from "@bowline/domain/plan/Outcome"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import { type ClientTool, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import {
  ApprovalConflict,
  EntryRefused,
  type HopsExceeded,
  type IdempotencyConflict,
  InvalidRequest,
  type NotAccepting,
  NotFound,
  type SessionBusy
} from "@bowline/domain/plan/Refusal"
import { GivenPart, maxFiles, maxParts, textOf } from "@bowline/domain/unstable/file/QuestionPart"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Effect, Layer, Option, Schema, Struct } from "effect"
import { isDeepStrictEqual } from "node:util"
import { FilesConfig } from "../config/FilesConfig.ts"
import * as QuestionFiles from "../file/QuestionFiles.ts"
import { FileStore } from "../store/FileStore.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { idempotency } from "../store/Idempotency.ts"
import {
  type Accepting,
  entryOf,
  InboxStore,
  keyedId,
  partsOf,
  settles,
  type StoredTextEntry,
  type WaitId
} from "../store/InboxStore.ts"
import { Notices } from "../store/Notices.ts"
import type { Page, PageRequest } from "../store/Page.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { InputValidator } from "../tool/InputValidator.ts"
import { schemaOf, shapeIssues, toCheck } from "./EntryShape.ts"
import { NewPlans } from "./NewPlans.ts"

export type { InboxStore, WaitId }

/** Who says something to a plan. An admin may do so to anybody's plans. */
export interface Decider {
  readonly caller: CallerName
  readonly isAdmin: boolean
}

/** An entry that was accepted, and the plan that has it: a text for a plan that has completed has `moved` to the session's next one. */
export interface AcceptedEntry {
  readonly entry_id: EntryId
  readonly plan_id: PlanId
  readonly moved: boolean
}

/** An `Idempotency-Key` of an inbox, or one of all requests of the caller, whatever plan hears them. */
export type EntryKey = string | { readonly ofCaller: string }

type Refused =
  | NotFound
  | EntryRefused
  | InvalidRequest
  | IdempotencyConflict
  | SessionBusy
  | NotAccepting
  | HopsExceeded
  | StorageError

/**
 * Says things to plans: texts, results, answers and decisions, on whatever replica the plans run.
 *
 * @example
 * ```ts
 * import type { CallerName } from "@bowline/domain/caller/CallerName"
 * import type { PlanId } from "@bowline/domain/plan/Plan"
 * import { Inbox } from "@bowline/runtime/plan/Inbox"
 * import { Effect } from "effect"
 *
 * // The plan takes it at its next step.
 * export const add = (caller: CallerName, plan: PlanId, text: string) =>
 *   Effect.flatMap(Inbox, (inbox) =>
 *     inbox.accept({ caller, isAdmin: false }, plan, { type: "text", text, when: "boundary", else: "ask" })
 *   )
 * ```
 */
export class Inbox extends Context.Service<
  Inbox,
  {
    /**
     * Accepts an entry: from then on it is taken exactly once, or named as untaken. With the same `key` and entry it is the same entry. A text for a
     * plan that has completed is the question of a new one, unless its `else` is `reject`. The `tools` of the client hold from the next step on.
     */
    readonly accept: (
      by: Decider,
      plan: PlanId,
      entry: NewEntry,
      key?: EntryKey,
      tools?: ReadonlyArray<ClientTool>
    ) => Effect.Effect<AcceptedEntry, Refused>
    /** The plan that an entry with this key of all requests of the caller was said to. */
    readonly heardBy: (caller: CallerName, key: string) => Effect.Effect<PlanId | undefined, StorageError>
    /** The entries of a plan, oldest first. */
    readonly list: (by: Decider, plan: PlanId, page: PageRequest) => Effect.Effect<Page<Entry>, NotFound | StorageError>
    /** Takes a text back that the plan has not taken. */
    readonly withdraw: (
      by: Decider,
      plan: PlanId,
      entry: EntryId
    ) => Effect.Effect<void, NotFound | EntryRefused | StorageError>
    /** The caller's plan of a call that waits, or has waited. */
    readonly planOfCall: InboxStore["Service"]["planOfCall"]
    /** What waits for somebody in plans of this caller, oldest first. */
    readonly waiting: InboxStore["Service"]["waiting"]
    /** What waits for a decision in plans of this caller, newest first. */
    readonly approvals: (
      caller: CallerName | undefined,
      page: PageRequest
    ) => Effect.Effect<Page<PendingApproval>, StorageError>
    /** Those of one plan of this caller. */
    readonly approvalsOf: (
      caller: CallerName,
      plan: PlanId
    ) => Effect.Effect<ReadonlyArray<PendingApproval>, StorageError>
    /**
     * Approves or rejects a call that waits, and returns the decision that stands: the first one. Fails with
     * `ApprovalConflict` if that is the other one, or if the plan is over.
     */
    readonly decide: (
      by: Decider,
      wait: WaitId,
      decision: Decision
    ) => Effect.Effect<GivenDecision, NotFound | ApprovalConflict | StorageError>
  }
>()("@bowline/runtime/plan/Inbox") {
  static readonly layer = Layer.effect(
    Inbox,
    Effect.gen(function* () {
      const store = yield* InboxStore
      const plans = yield* PlanStore
      const notices = yield* Notices
      const validator = yield* InputValidator
      const newPlans = yield* NewPlans
      const uuid = yield* UuidGenerator
      const files = yield* FileStore
      const { takeQuestion: takeFiles } = yield* QuestionFiles.make
      const { sessionQuota } = yield* FilesConfig

      /** Takes in the files of a text, or of a result, and gives them to the plan's session. */
      const withFiles = Effect.fnUntraced(function* ({ caller }: Decider, plan_id: PlanId, entry: NewEntry) {
        const given = givenParts(entry)
        if (given === undefined) return entry
        const { parts, root } = given
        const isTooMuch = parts.length > maxParts || parts.filter(({ type }) => type === "file").length > maxFiles
        if (isTooMuch) {
          const message = `Expected at most ${maxParts} parts, with at most ${maxFiles} files`
          return yield* new InvalidRequest({ issues: [{ path: [root], message }] })
        }
        const { session_id } = yield* plans.get(caller, plan_id)
        const { question_parts = [] } = yield* takeFiles(caller, parts, root).pipe(
          Effect.mapError((error) => (error._tag === "InvalidRequest" && entry.type === "text" ? ofIds(error) : error))
        )
        const references = question_parts.filter((part) => part.type === "file")
        const refuse = (message: string, code?: "quota_exceeded") =>
          Effect.fail(new InvalidRequest({ ...(code && { code }), issues: [{ path: [root], message }] }))
        const ids = references.map(({ file_id }) => file_id)
        yield* files.attach(session_id, ids, sessionQuota).pipe(
          Effect.catchTags({
            FileRefused: ({ message }) => refuse(message, "quota_exceeded"),
            NotFound: () => refuse("A file is no longer there")
          })
        )
        if (entry.type === "text") return { ...entry, references }
        return { ...entry, content: question_parts.map((part) => ({ ...part })) }
      })

      /** A notice that is lost only delays the plan, or the readers of a parked one. */
      const tell = (plan_id: PlanId, parked?: "woken" | "told") =>
        Effect.ignore(
          notices.publish([
            parked === "told" ? { _tag: "Advanced", plan_id } : { _tag: "InboxChanged", plan_id },
            ...(parked === "woken" ? [{ _tag: "PlansLeft" } as const] : [])
          ])
        )
      const ownerOf = ({ caller, isAdmin }: Decider) => (isAdmin ? undefined : caller)
      const idOf = ({ caller }: Decider, plan: PlanId, key: EntryKey | undefined) => {
        if (key === undefined) return EntryId.make(`entry_${uuid()}`)
        return typeof key === "string" ? keyedId([plan, caller, key]) : entryOf(caller, key.ofCaller)
      }

      /** Refuses what does not match the schema of what waits. */
      const check = Effect.fnUntraced(function* (by: Decider, plan_id: PlanId, entry: NewEntry) {
        if (entry.type === "text") return
        const wait = yield* store.find({ plan_id, task_id: entry.task_id }, ownerOf(by))
        if (wait.kind !== settles[entry.type]) return
        // The question that it names is settled, or is none: the store says which.
        if (entry.type === "answer" && (entry.round ?? wait.round) !== wait.round) return
        const issues = shapeIssues(entry, wait)
        if (issues.length > 0) return yield* new InvalidRequest({ issues })
        const checked = toCheck(entry)
        const schema = schemaOf(wait)
        if (checked === undefined || schema === undefined) return
        const problem = yield* validator.outputProblem(by.caller, wait.tool, schema, checked.value)
        if (problem !== undefined) {
          return yield* new InvalidRequest({ issues: [{ path: [checked.field], message: problem }] })
        }
      })

      /** The tools if they are others than before. Refuses those that the plan cannot have. */
      const newTools = Effect.fnUntraced(function* (
        caller: CallerName,
        plan_id: PlanId,
        tools: ReadonlyArray<ClientTool> | undefined
      ) {
        if (tools === undefined || isDeepStrictEqual(tools, yield* store.toolsOf(plan_id))) return undefined
        const { request: stored, session_id } = yield* plans.get(caller, plan_id)
        const request = decodeRequest({ ...goingOn(stored), tools, session_id })
        if (Option.isSome(request)) yield* newPlans.check({ caller, request: request.value })
        return tools
      })

      /** Asks the text as the next question of the session. The entry's id makes it one plan, however often it is tried. */
      const ask = Effect.fnUntraced(function* (accepting: Accepting, entry: StoredTextEntry, owner: CallerName) {
        const { entry_id, plan_id, tools = yield* store.toolsOf(plan_id) } = accepting
        const before = yield* plans.get(owner, plan_id)
        const request = decodeRequest({
          ...goingOn(before.request),
          ...(entry.references === undefined
            ? { question: entry.text }
            : { question: textOf(partsOf(entry)), question_parts: partsOf(entry) }),
          tools,
          session_id: before.session_id
        })
        if (Option.isNone(request)) return yield* secretsGone
        const { preferences } = request.value
        const asked = {
          caller: owner,
          request: {
            ...request.value,
            preferences: { ...preferences, on_busy: "queue" as const },
            // What is known of an admin does not hold for the owner.
            ...(owner !== accepting.by && { asker: {} })
          },
          idempotency: idempotency(entry_id, accepting.entry)
        }
        const next = yield* newPlans
          .start(asked, ({ run }) => Effect.succeed(run.given.plan_id))
          .pipe(Effect.catchTag("PlanExists", ({ plan_id }) => Effect.succeed(plan_id)))
        yield* store.move(accepting, next)
        return { entry_id, plan_id: next, moved: true }
      }, Effect.uninterruptible)

      const accept: Inbox["Service"]["accept"] = Effect.fnUntraced(function* (by, plan_id, given, key, tools) {
        yield* check(by, plan_id, given)
        const entry = yield* withFiles(by, plan_id, given)
        const entry_id = idOf(by, plan_id, key)
        const along = yield* newTools(by.caller, plan_id, tools)
        const accepting = { plan_id, entry_id, by: by.caller, owner: ownerOf(by), entry, tools: along }
        const accepted = yield* store.accept(accepting)
        if (accepted._tag === "Completed") {
          return entry.type === "text" ? yield* ask(accepting, entry, accepted.owner) : yield* Effect.die("Not a text")
        }
        if (accepted._tag === "Accepted") yield* tell(plan_id, accepted.parked)
        const { moved_to } = accepted
        return { entry_id: accepted.entry_id, plan_id: moved_to ?? plan_id, moved: moved_to !== null }
      })

      return {
        accept,
        heardBy: (caller, key) => store.planOf(entryOf(caller, key)),
        list: (by, plan, page) => store.list(plan, ownerOf(by), page),
        withdraw: (by, plan, entry) =>
          Effect.andThen(store.withdraw(plan, entry, ownerOf(by)), Effect.andThen(tell(plan), tell(plan, "told"))),
        planOfCall: store.planOfCall,
        waiting: store.waiting,
        approvals: (caller, page) => store.approvals(caller, undefined, page),
        approvalsOf: (caller, plan) =>
          Effect.map(store.approvals(caller, plan, { limit: 1_000 }), ({ items }) => items),
        decide: Effect.fnUntraced(function* (by, { plan_id, task_id }, decision) {
          const standing = store.decision({ plan_id, task_id })
          const entry = { type: "decision" as const, task_id, ...decision }
          const accepted = yield* store
            .accept({ plan_id, entry_id: idOf(by, plan_id, undefined), by: by.caller, owner: ownerOf(by), entry })
            .pipe(
              Effect.catchTags({
                NotFound: () => Effect.fail(new NotFound({ what: "approval" })),
                EntryRefused: ({ code }) =>
                  Effect.flatMap(code === "plan_over" ? Effect.undefined : standing, (standing) =>
                    Effect.fail(new ApprovalConflict({ standing }))
                  ),
                IdempotencyConflict: (error) => Effect.die(error)
              })
            )
          if (accepted._tag === "Accepted") yield* tell(plan_id, accepted.parked)
          return (yield* standing) ?? { ...decision, by: by.caller }
        })
      }
    })
  )
}

/** Issues of files that were sent as ids and not as parts: the path ends with the place of the id. */
const ofIds = ({ issues }: InvalidRequest) =>
  new InvalidRequest({ issues: issues.map(({ message, path }) => ({ path: path.slice(0, 2), message })) })

/** The files that an entry brings, if it brings any. */
const givenParts = (
  entry: NewEntry
): { readonly root: string; readonly parts: ReadonlyArray<GivenPart> } | undefined => {
  if (entry.type === "text") {
    return entry.files && { root: "files", parts: entry.files.map((file_id) => ({ type: "file", file_id })) }
  }
  const parts = entry.type === "result" ? Option.getOrUndefined(decodeParts(entry.content)) : undefined
  return parts?.some(({ type }) => type === "file") === true ? { root: "content", parts } : undefined
}
const decodeParts = Schema.decodeUnknownOption(Schema.Array(GivenPart), { onExcessProperty: "error" })

/** A request without what its plan alone begins with. */
const goingOn = (request: Plan["request"]) => Struct.omit(request ?? {}, ["call", "history", "prior_summary"])

const decodeRequest = Schema.decodeUnknownOption(PlanRequest)

const secretsGone = new EntryRefused({
  code: "plan_over",
  message: "The plan is over, and its request had secrets that are not kept. Ask with POST /plan, in the same session"
})
