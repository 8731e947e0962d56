import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { ToolEffect } from "@bowline/domain/tool/TaskState"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Duration, Effect, Option, Result, type Schema } from "effect"
import { createHash } from "node:crypto"
import type { ClaimRecord } from "../record/BeginRecord.ts"
import { canonicalJson } from "../store/CanonicalJson.ts"
import type { EffectClaim, EffectEnd, PlanChange, PlanStore } from "../store/PlanStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { ToolInput, ToolResult } from "../tool/Tool.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { Prepared } from "./PreparedCalls.ts"

type Ready = Extract<Prepared, { readonly _tag: "Ready" }>

/** How soon a call that waits for another one sees its end. */
const lookAgainAfter = Duration.millis(500)

const defaultKeep = Duration.days(30)

const keepOf = ({ keep }: ToolEffect): Duration.Duration => {
  if (keep === undefined) return defaultKeep
  const count = Number.parseInt(keep, 10)
  return keep.endsWith("d") ? Duration.days(count) : Duration.hours(count)
}

const isContainer = (value: Schema.Json | undefined): value is { readonly [key: string]: Schema.Json } =>
  typeof value === "object" && value !== null

/** What stands at a JSON Pointer; undefined if nothing does. */
const at = (input: ToolInput, pointer: string): Schema.Json | undefined => {
  let value: Schema.Json | undefined = input
  for (const part of pointer.slice(1).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~")
    value = isContainer(value) && Object.hasOwn(value, name) ? value[name] : undefined
  }
  return value
}

/**
 * The key of a call's effect: a digest of the session, if only its calls count, of the tool, and of what stands in the arguments. Fails with the
 * first place that is missing there.
 */
export const keyOf = (
  tool: string,
  { key, scope }: ToolEffect,
  input: ToolInput,
  session: SessionId
): Result.Result<string, string> => {
  const values: Array<Schema.Json> = []
  for (const place of key === "arguments" ? [] : key) {
    const value = at(input, place)
    if (value === undefined) return Result.fail(place)
    values.push(value)
  }
  const said = [scope === "session" ? session : null, tool, key === "arguments" ? input : values]
  return Result.succeed(createHash("sha256").update(canonicalJson(said)).digest("hex"))
}

/** Errors of calls that the tool itself has said to have failed. */
const saidToFail: ReadonlySet<string> = new Set(["task_failed", "tool_failed"])

/** What a call has done that ended so. `isKnown`: it may have arrived, whatever failed then: its peer has named its task, or another process has made it before. */
export const endOf = (
  { error, isBroken = false, isUnsent = false, state }: ToolResult,
  isKnown: boolean
): EffectEnd => {
  if (state === "completed") return "done"
  if (isUnsent && !isKnown) return "none"
  const isTold =
    !isBroken && (state === "failed" || state === "rejected") && error !== undefined && saidToFail.has(error.code)
  return isTold ? "none" : "unknown"
}

/** The call with the key of its effect, if its tool says what that is. It is refused where the arguments lack a place of the key. */
export const keyed = <Call extends Prepared>(
  run: PlanRun,
  call: Call
): Call | Extract<Prepared, { _tag: "Refused" }> => {
  if (call._tag === "Refused" || call.tool.effect === undefined) return call
  const { input, part, tool } = call
  const key = keyOf(tool.name, call.tool.effect, input, run.given.session_id)
  if (Result.isSuccess(key)) return { ...call, effectKey: key.success }
  const message = `The arguments have nothing at ${key.failure}, by which ${tool.name} is known not to do the same twice`
  return { _tag: "Refused", part, tool, state: "invalid", input, message }
}

const isRepeat = (call: Prepared): boolean => call._tag === "Ready" && call.repeats !== undefined

/** The idempotency key of all calls of an effect: a tool that knows such keys does it once, whoever has lost track of it. */
export const idempotencyKeyOf = ({ given: { caller } }: PlanRun, effectKey: string | undefined): string | undefined =>
  effectKey === undefined
    ? undefined
    : createHash("sha256")
        .update(canonicalJson([caller, effectKey]))
        .digest("hex")

/** The claim of a call's effect, to be stored with its intent. */
export const claimed = (
  call: Exclude<Prepared, { readonly _tag: "Refused" }>,
  now: number
): ReadonlyArray<PlanChange> => {
  const { effectKey: key, part, tool } = call
  if (key === undefined || tool.effect === undefined || isRepeat(call)) return []
  const { task_id } = part
  const expires_at = fromMillis(now + Duration.toMillis(keepOf(tool.effect)))
  const follows = call._tag === "Ready" ? (call.follows ?? null) : null
  return [{ _tag: "EffectClaimed", key, task_id, tool: tool.name, at: fromMillis(now), expires_at, follows }]
}

/**
 * What its peer says of the task of an earlier call: what it came to, if it is over by the peer's word within the time of a call. It is asked and nothing is sent; a task that
 * goes on is left alone.
 */
const askPeer = Effect.fnUntraced(function* (
  { input, tool }: Ready,
  { contextId, taskId, task_id }: EffectClaim,
  limit: number
): Effect.fn.Return<ToolResult | undefined> {
  if (tool.kind !== "peer" || taskId === null) return undefined
  const asked = tool.call({
    input,
    taskId: task_id,
    resumes: { taskId, contextId },
    isInquiry: true,
    isHandedOver: () => true,
    onEvent: () => Effect.void,
    // What the task asks is no business of this call.
    ask: () => Effect.never,
    awaitAccount: () => Effect.succeed(false)
  })
  const end = Option.getOrUndefined(yield* Effect.timeoutOption(asked, limit))
  return end !== undefined && endOf(end, true) !== "unknown" ? end : undefined
})

/** Keeps which other call had the effect of this one: what follows depends on it. */
const record = (
  { given: { journal } }: PlanRun,
  { part: { task_id } }: { readonly part: Ready["part"] },
  before: ClaimRecord["before"],
  claim: EffectClaim,
  told?: ToolResult
): void => {
  const kept: ClaimRecord = { type: "claim", task_id, before, claim, ...(told !== undefined && { told }) }
  journal.record(kept)
}

/** What is to be known before a call: an earlier one of which nobody knows whether it has done the same, or what that has returned by its peer's word. */
interface Doubt {
  readonly before?: EffectClaim
  readonly repeats?: ToolResult
}

/** Asks the peer of an earlier call of which nobody knows what it has done. What it says is known from then on. `limit` is the time of the call, in milliseconds. */
export const doubtOf = Effect.fnUntraced(function* (
  store: PlanStore["Service"],
  run: PlanRun,
  call: Ready,
  limit: number
): Effect.fn.Return<Doubt, StorageError> {
  const keyedCall = keyed(run, call)
  if (keyedCall._tag === "Refused" || keyedCall.effectKey === undefined) return {}
  const { caller, journal } = run.given
  const claim = Option.getOrUndefined(yield* retryWhileAway(store.claimOf(caller, keyedCall.effectKey)))
  if (claim?.state !== "unknown") return {}
  const end = yield* run.stages.within("tool")(askPeer(call, claim, limit))
  record(run, call, "approval", claim, end)
  if (end === undefined) return { before: claim }
  const state = endOf(end, true)
  journal.append([{ _tag: "EffectEnded", task_id: claim.task_id, state }], [])
  yield* journal.flush
  return state === "done" ? { repeats: repeated({ ...claim, result: end.content }) } : {}
})

export const whyUnknown = ({ at, plan_id, task_id }: EffectClaim): string =>
  `the call ${task_id} of ${plan_id} at ${at} may have done the same, and nobody knows whether it has.`

const repeated = ({ at, plan_id, result, task_id }: EffectClaim): ToolResult => ({
  state: "completed",
  content: result ?? "",
  note: `It was not done again: it was done at ${at} by ${plan_id}.${result === null ? " What it returned is not known." : ""}`,
  repeat_of: task_id
})

/**
 * What becomes of a call whose intent is stored, if another one has its effect: undefined means that the effect is its own, and that it may be made.
 *
 *     stored ──it is ours──▶ made
 *       │ another one's: done ──▶ repeated    unknown ──▶ rejected
 *       │ runs ──▶ waits ──▶ (looks again)    none, or gone ──▶ claims it ──▶ (looks again)
 */
export const settle = Effect.fnUntraced(function* (
  store: PlanStore["Service"],
  run: PlanRun,
  call: Exclude<Prepared, { readonly _tag: "Refused" }>,
  left: number
): Effect.fn.Return<ToolResult | undefined, StorageError> {
  const { effectKey: key, part } = call
  if (call._tag === "Ready" && call.repeats !== undefined) return call.repeats
  if (key === undefined) return undefined
  const { caller, journal } = run.given
  const end = (yield* Clock.currentTimeMillis) + left
  for (;;) {
    const claim = Option.getOrUndefined(yield* retryWhileAway(store.claimOf(caller, key)))
    if (claim?.task_id === part.task_id) return undefined
    const isLate = claim?.state === "running" && (yield* Clock.currentTimeMillis) >= end
    if (claim?.state === "done" || claim?.state === "unknown" || (claim !== undefined && isLate)) {
      record(run, call, "call", claim)
    }
    if (claim?.state === "done") return repeated(claim)
    if (claim?.state === "unknown") {
      const message = `The call was not made: ${whyUnknown(claim)}`
      return { state: "rejected", content: message, error: { code: "effect_unknown", message } }
    }
    const now = yield* Clock.currentTimeMillis
    if (claim?.state === "running") {
      if (now >= end) {
        const message = `${call.tool.name} was not called: the call ${claim.task_id} of ${claim.plan_id}, which does the same, still runs.`
        return { state: "timed-out", content: message, error: { code: "timeout", message } }
      }
      yield* Effect.sleep(Duration.min(lookAgainAfter, Duration.millis(end - now)))
      continue
    }
    journal.append(claimed(call, now), [])
    yield* journal.flush
  }
})
