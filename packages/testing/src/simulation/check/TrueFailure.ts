import { resolve } from "@bowline/domain/plan/PlanRequest"
import { Duration, Option, Schema } from "effect"
import type { Observed, ObservedAttempt, ObservedPlan } from "../scenario/Observed.ts"
import { isSpent } from "./Budgets.ts"
import { wasAway, wasFrozen, wasHindered } from "./Fitness.ts"
import { notSummarised } from "./Histories.ts"
import { ownersOf, type PlanEnd } from "./PlanEnd.ts"
import { onTheWay, reasonsOf } from "./Windows.ts"

/** Whether this has happened to the plan, which it names as the reason of its end. */
type Cause = (observed: Observed, plan: ObservedPlan, end: PlanEnd) => boolean

/** Characters of these messages: each has a token at most. */
const lengthOf = (messages: Observed["sessions"][number]["messages"]): number =>
  messages.reduce((sum, { parts }) => sum + JSON.stringify(parts).length, 0)

/** Tokens of a prompt beside its messages, at most: of instructions and schemas, which are words. */
const frameOf = ({ attempts }: Observed): number =>
  Math.max(
    2_000,
    ...attempts.map(({ asked: { system, tools } }) => (system.length + JSON.stringify(tools).length) / 2.5)
  )

const sessionOf = ({ sessions }: Observed, { plan }: ObservedPlan) =>
  sessions.find(({ session_id }) => session_id === plan.session_id)?.messages ?? []

/** The last request of the plan to a provider. */
const lastAttempt = ({ attempts }: Observed, { name }: ObservedPlan, { order }: PlanEnd) =>
  attempts.findLast(({ began, plan }) => plan === name && began.order < order)

/** Whether the network has reset a request of the plan behind its last one that has arrived, or that one. */
const isCutByNetwork = (
  { resets }: Observed,
  { name }: ObservedPlan,
  last: ObservedAttempt | undefined,
  end: PlanEnd
) =>
  resets.some(
    ({ call, order, plan, replica }) =>
      call === undefined &&
      plan === name &&
      replica === end.replica &&
      order > (last?.began.order ?? 0) &&
      order < end.order
  )

/** Whether a replica sees this failure in what the provider, or the network, has done with the request. */
const isFault = (observed: Observed, attempt: ObservedAttempt, reason: string, end: PlanEnd): boolean => {
  const { began, ended = end, quiet, result } = attempt
  if (reasonsOf(observed, attempt).includes(reason)) return true
  switch (reason) {
    case "first_token_timeout":
    case "idle_timeout":
      return result === "cut" && quiet >= observed.silence - onTheWay
    case "attempt_timeout":
      return ended.at - began.at >= Duration.toMillis(observed.config.attemptTimeout)
    case "empty_answer":
      return result === "finished" && attempt.said === ""
    default:
      return false
  }
}

/** What a plan fails with that a window keeps from asking: what keeps a key or a model out is named, the rest passes. */
const codeOfWindow = (reason: string): string =>
  ["auth", "billing", "model_unavailable"].includes(reason) ? reason : "rate_limited"

/** Whether each credential for the plan's model was blocked in its time, and one for this reason: a fallback's may end sooner. */
const isNoneFree = (
  { windows }: Observed,
  { created, plan: { model } }: ObservedPlan,
  { order }: PlanEnd,
  reason: string
): boolean => {
  const provider = model.split("/")[0] ?? ""
  const running = windows.filter((window) => window.order < order && window.until >= created.at)
  const aside = new Set(running.flatMap(({ credential }) => (credential.startsWith(provider) ? [credential] : [])))
  return (
    (aside.has(provider) || aside.size >= (provider === "openai" ? 2 : 1)) &&
    running.some((window) => codeOfWindow(window.reason) === reason)
  )
}

/** Failures that are tried again with the same model until its retries are used up, whatever else has failed. */
const retried: ReadonlyArray<string> = ["server_error", "overloaded"]

/** A plan that has less time than this may give up sooner, in milliseconds: a wait doubles with each retry. */
const timeForRetries = 60_000

/** Whether the model that was asked last has had all its retries. */
const hasRetried = (observed: Observed, plan: ObservedPlan, last: ObservedAttempt, end: PlanEnd): boolean => {
  const asked = observed.attempts.filter((one) => one.plan === plan.name && one.began.order < end.order)
  const ofOthers = asked.findLastIndex(({ model, result }) => model !== last.model || result === "finished")
  const { created, deadline } = plan
  const isShort = deadline - end.at < timeForRetries || deadline - created.at < timeForRetries
  return isShort || asked.length - 1 - ofOthers > observed.config.maxRetries
}

/** The last request has failed like this, or none could be made. */
const providerHasFailed =
  (reason: string): Cause =>
  (observed, plan, end) => {
    const last = lastAttempt(observed, plan, end)
    return (
      (last !== undefined &&
        isFault(observed, last, reason, end) &&
        (!retried.includes(reason) || hasRetried(observed, plan, last, end))) ||
      (reason === "transport" && isCutByNetwork(observed, plan, last, end)) ||
      isNoneFree(observed, plan, end, reason)
    )
  }

/** What the plan itself has to send fills the window; or what came before does, and there was no summary of it. */
const isTooLong: Cause = (observed, plan, end) => {
  // A quarter is for the answer, and a tenth for the summary of what came before.
  const most = 0.65 * observed.config.contextWindow - frameOf(observed)
  const messages = sessionOf(observed, plan)
  const own = messages.filter(({ plan_id }) => plan_id === plan.plan.plan_id)
  const missing = notSummarised(observed, end)
  const isMissing = observed.plans.some(
    ({ name, plan: { session_id } }) => session_id === plan.plan.session_id && missing.has(`FACT-${name}`)
  )
  return lengthOf(own) >= most || (lengthOf(messages) >= most && isMissing)
}

/** The plan has been taken over, and cannot be resumed: a call may have had an effect that nobody knows, or too many processes have died. */
const isInterrupted: Cause = (observed, plan, end) => {
  const { calls, commits, config, takeOvers } = observed
  const taken = takeOvers.filter(({ order, plan_id }) => plan_id === plan.plan.plan_id && order < end.order)
  const last = taken.findLast(({ replica }) => replica === end.replica)
  if (last === undefined) return false
  const isLeft = ownersOf(observed, plan).some(
    (owner) => owner.order < last.order && wasHindered(observed, owner.replica, owner.at, last.at)
  )
  const changes = commits.flatMap((commit) =>
    commit.plan_id === plan.plan.plan_id && commit.order < last.order ? commit.changes : []
  )
  const over = new Set(changes.flatMap((change) => (change._tag === "TaskFinished" ? [change.task_id] : [])))
  const repeatable = new Set(calls.flatMap(({ isIdempotent, tool }) => (isIdempotent ? [tool] : [])))
  const isUnknown = changes.some(
    (change) => change._tag === "TaskStarted" && !over.has(change.task_id) && !repeatable.has(change.tool)
  )
  return isLeft && (isUnknown || taken.length > 2 || !config.resume)
}

/** The tokens of the plan or of the day are used up, or the next request alone has more. */
const isBudgetSpent: Cause = (observed, plan, end) => {
  const { max_total_tokens = Infinity } = plan.budget
  const limit = Math.min(max_total_tokens, observed.day?.tokens ?? Infinity)
  return isSpent(observed, plan, end) || lengthOf(sessionOf(observed, plan)) + frameOf(observed) > limit
}

/** How often the model has made the same call, as a prompt shows it: the calls of the last step are in none. */
export const sameCalls = ({ attempts }: Observed, { name }: ObservedPlan): number => {
  const counts = attempts.flatMap(({ asked, plan }) => {
    if (plan !== name) return []
    const calls = asked.messages.flatMap((message) => (message.role === "assistant" ? message.calls : []))
    const made = calls.map(({ input, name: tool }) => `${tool} ${JSON.stringify(input)}`)
    return made.map((call) => made.filter((other) => other === call).length)
  })
  return Math.max(0, ...counts)
}

const decodeJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

/** What the provider said in the end, in one answer or in those that go on with one that was cut, is no JSON. */
const isNoJson: Cause = ({ attempts }, plan, { order }) => {
  const asked = attempts.filter(({ began, plan: of }) => of === plan.name && began.order < order)
  const whole = asked.slice(asked.slice(0, -1).findLastIndex(({ finish }) => finish !== "length") + 1)
  const said = whole.map((attempt) => attempt.said).join("")
  return resolve(plan.request).preferences.response_format !== "text" && Option.isNone(decodeJson(said))
}

/** Its one call has ended otherwise than well. */
const hasCallFailed: Cause = ({ commits }, { plan, request }, { order }) =>
  request.call !== undefined &&
  commits.some(
    (commit) =>
      commit.plan_id === plan.plan_id &&
      commit.order <= order &&
      commit.changes.some((change) => change._tag === "TaskFinished" && change.state !== "completed")
  )

/** Its MCP servers were out of reach, at some time behind its start or just before. */
const isServerAway: Cause = ({ faults }, { created, request }, { at }) =>
  request.mcp_servers.some(({ required }) => required === true) &&
  faults.some(
    ({ fault, from, to }) =>
      (fault._tag === "McpServer" || fault._tag === "HalfOpen" || fault._tag.startsWith("Network")) &&
      from <= at &&
      to >= created.at - onTheWay
  )

/** How long a write waits for the store, in milliseconds. */
const storePatience = 30_000

/** The store was away, or the process was frozen for so long that its write has waited enough when it goes on. */
const isStoreAway: Cause = (observed, plan, end) =>
  ownersOf(observed, plan).some(
    ({ at, replica }) =>
      wasAway(observed, replica, at, end.at) || wasFrozen(observed, replica, at, end.at, storePatience)
  )

/** What has to have happened for each code. A plan has no other code, and none for a bug. */
const causes: Readonly<Record<string, Cause>> = {
  context_overflow: (...given) => providerHasFailed("context_overflow")(...given) || isTooLong(...given),
  storage: isStoreAway,
  interrupted: isInterrupted,
  budget_exceeded: isBudgetSpent,
  loop_detected: (observed, plan) => sameCalls(observed, plan) >= observed.config.loop.failures - 1,
  output_invalid: isNoJson,
  tool_failed: hasCallFailed,
  mcp_unreachable: isServerAway
}

/** Whether a failure has the cause that its code names. */
export const isTrueFailure = (observed: Observed, plan: ObservedPlan, end: PlanEnd, code: string): boolean => {
  const reason = /^provider_(.*)$/.exec(code)?.[1]
  const cause = reason === undefined ? causes[code] : providerHasFailed(reason)
  return cause?.(observed, plan, end) === true
}
