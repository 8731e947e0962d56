import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { ToolEffect } from "@bowline/domain/tool/TaskState"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Duration, Effect, Option, Result, type Schema } from "effect"
import { createHash } from "node:crypto"
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

/** What a call has done that ended so. `isKnown`: its peer has named its task, so that the call has arrived, whatever failed then. */
export const endOf = ({ error, isUnsent = false, state }: ToolResult, isKnown: boolean): EffectEnd => {
  if (state === "completed") return "done"
  if (isUnsent && !isKnown) return "none"
  const isTold = (state === "failed" || state === "rejected") && error !== undefined && saidToFail.has(error.code)
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

/** The claim of a call's effect, to be stored with its intent. */
export const claimed = (
  call: Exclude<Prepared, { readonly _tag: "Refused" }>,
  now: number
): ReadonlyArray<PlanChange> => {
  const { effectKey: key, part, tool } = call
  if (key === undefined || tool.effect === undefined) return []
  const { task_id } = part
  const expires_at = fromMillis(now + Duration.toMillis(keepOf(tool.effect)))
  const follows = call._tag === "Ready" ? (call.follows ?? null) : null
  return [{ _tag: "EffectClaimed", key, task_id, tool: tool.name, at: fromMillis(now), expires_at, follows }]
}

/** An earlier call of which nobody knows whether it has done what this one is to do. */
export const unknownBefore = Effect.fnUntraced(function* (store: PlanStore["Service"], run: PlanRun, call: Ready) {
  const keyedCall = keyed(run, call)
  if (keyedCall._tag === "Refused" || keyedCall.effectKey === undefined) return undefined
  const claim = yield* retryWhileAway(store.claimOf(run.given.caller, keyedCall.effectKey))
  return Option.getOrUndefined(Option.filter(claim, ({ state }) => state === "unknown"))
})

export const whyUnknown = ({ at, plan_id, task_id }: EffectClaim): string =>
  `the call ${task_id} of ${plan_id} at ${at} may have done the same, and nobody knows whether it has.`

const repeated = ({ at, plan_id, result, task_id }: EffectClaim): ToolResult => ({
  state: "completed",
  content: result ?? "",
  note: `It was not done again: it was done at ${at} by ${plan_id}.${result === null ? " What it returned is no longer stored." : ""}`,
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
  if (key === undefined) return undefined
  const { caller, journal } = run.given
  const end = (yield* Clock.currentTimeMillis) + left
  for (;;) {
    const claim = Option.getOrUndefined(yield* retryWhileAway(store.claimOf(caller, key)))
    if (claim?.task_id === part.task_id) return undefined
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
