import { resolve } from "@bowline/domain/plan/PlanRequest"
import type { TaskId, TaskState } from "@bowline/domain/tool/TaskState"
import { Duration } from "effect"
import type { Moment, Observed, ObservedCall, ObservedPlan } from "../scenario/Observed.ts"
import type { Fault, McpFault, PeerFault } from "../scenario/Scenario.ts"
import { isPeerTool } from "../world/Peers.ts"
import { isMcpTool } from "../world/Servers.ts"
import { clientTools } from "../world/Tools.ts"
import { areCallsSpent, isSpent, stepsOf } from "./Budgets.ts"
import { hasRival, intentsOf } from "./Effects.ts"
import { wasHindered } from "./Fitness.ts"
import { expiresBy, hasExpired } from "./Parking.ts"
import { endsOf, eventsOf, named, ownersOf, type PlanEnd, seconds } from "./PlanEnd.ts"

/** How much later than its limit a call may end, in milliseconds; and how long a process waits at least for a call that it resumes. */
const slack = 1_000
const lastLook = 10_000

/** How long a process takes until it goes on with the calls of a plan that it has taken over, in milliseconds. */
const preparing = 2_000

/** How long a peer may go without a usable answer, and how long it is asked for nothing between two polls, in milliseconds. */
const peerPatience = 30_000
const pollPause = 5_500

/** What is stored of a call from its start to its end. */
interface Ended {
  readonly task_id: TaskId
  readonly tool: string
  readonly key: string
  readonly state: TaskState
  readonly result: string
  readonly code: string | undefined
  readonly began: Moment
  readonly ended: Moment
  /** When its peer had named its task: whoever takes the plan over behind that goes on with it. */
  readonly named: number
}

const keyIn = (input: unknown): string => /\\?"key\\?":\\?"([^"\\]+)/.exec(JSON.stringify(input))?.[1] ?? ""

/** The calls of a plan that were started and have ended. What was written again counts once. */
const endedOf = ({ commits }: Observed, { plan }: ObservedPlan): ReadonlyArray<Ended> => {
  const started = new Map<TaskId, Pick<Ended, "began" | "key" | "tool">>()
  const ended = new Map<TaskId, Ended>()
  const named = new Map<TaskId, number>()
  for (const { at, changes, order, plan_id } of commits) {
    if (plan_id !== plan.plan_id) continue
    for (const change of changes) {
      if (change._tag === "TaskStarted" && !started.has(change.task_id)) {
        started.set(change.task_id, { began: { at, order }, key: keyIn(change.input), tool: change.tool })
      }
      if (change._tag === "TaskAccepted" && change.remote_task_id !== null && !named.has(change.task_id)) {
        named.set(change.task_id, order)
      }
      if (change._tag !== "TaskFinished" || ended.has(change.task_id)) continue
      const { error, result, state, task_id } = change
      const start = started.get(task_id)
      if (start !== undefined) {
        ended.set(task_id, {
          ...start,
          task_id,
          state,
          result,
          code: error?.code,
          ended: { at, order },
          named: named.get(task_id) ?? Infinity
        })
      }
    }
  }
  return Array.from(ended.values())
}

/** Ends of a call that its own fault may cause, besides what its peer has made of it. */
const endsByFault: Readonly<Record<(PeerFault | McpFault)["_tag"], ReadonlyArray<TaskState>>> = {
  Silent: ["failed", "timed-out"],
  Vanish: ["failed", "timed-out"],
  Stuck: ["timed-out", "failed"],
  IgnoreCancel: [],
  Fail: [],
  Garbled: [],
  // A poll that fails is repeated.
  Polls: [],
  Late: ["failed", "timed-out"],
  State: ["timed-out"],
  Asks: [],
  Refuse: ["failed"],
  Break: ["failed", "timed-out"]
}

/** Whether the fault touches calls of this tool. The circuit of a peer opens for all of its calls. */
const touches = (fault: Fault, { code, key, tool }: Ended): boolean => {
  switch (fault._tag) {
    case "NetworkReset":
    case "HalfOpen":
    case "NetworkSlow":
      return true
    case "Pause":
      // A process that was frozen for so long has no answer of its peer for a while, and does not ask at once.
      return fault.ms >= peerPatience - pollPause
    case "Card":
      return tool.startsWith("auto_")
    case "McpServer":
      return isMcpTool(tool)
    case "Mcp":
      return fault.key === key
    case "Peer":
      return fault.key === key || code === "circuit_open"
    default:
      return false
  }
}

/** Whether a fault of the world explains this end of a call of a peer or of an MCP server. */
const isStruck = ({ faults }: Observed, call: Ended): boolean => {
  if (!isPeerTool(call.tool) && !isMcpTool(call.tool)) return false
  return faults.some(({ fault, from }) => {
    if (!touches(fault, call) || from > call.ended.at) return false
    const isOwn = (fault._tag === "Peer" || fault._tag === "Mcp") && fault.key === call.key
    return !isOwn || endsByFault[fault.does._tag].includes(call.state)
  })
}

/** The limit of a call of the plan, in milliseconds. Its tool may have a shorter one. */
const limitOf = ({ config }: Observed, { request, toolTimeoutMs }: ObservedPlan): number =>
  Math.min(toolTimeoutMs, resolve(request).preferences.tool_timeout_ms, Duration.toMillis(config.toolTimeout))

/** Whether a call was refused for a reason: somebody has rejected it, none was left, or its tool has changed since it was approved. */
const isRefused = (observed: Observed, plan: ObservedPlan, { ended, task_id, tool }: Ended): boolean => {
  const { max_steps } = { ...resolve(plan.request).preferences, ...plan.budget }
  return (
    observed.decisions.some((one) => one.task_id === task_id && one.asked === "reject" && one.order < ended.order) ||
    hasExpired(observed, plan, task_id, ended) ||
    areCallsSpent(observed, plan, ended) ||
    isSpent(observed, plan, ended) ||
    stepsOf(observed, plan).length >= max_steps ||
    (isMcpTool(tool) &&
      observed.faults.some(({ fault }) => fault._tag === "McpServer" && fault.does === "changes its tools"))
  )
}

/** Whether the tool has made this of the call, by then. */
const isResult = ({ began, ms, result }: ObservedCall, { ended, result: told, state }: Ended): boolean =>
  result?.state === state &&
  ended.at >= began.at + ms &&
  (state !== "completed" || told.includes(result.content.slice(0, 1_000)))

/** Whether the caller has given the call this result, by then. */
const isGiven = ({ given }: Observed, { ended, result, state, task_id }: Ended): boolean =>
  given.some(
    ({ accepted, content, isError, task_id: task }) =>
      task === task_id &&
      content === result &&
      state === (isError ? "failed" : "completed") &&
      (accepted?.order ?? Infinity) < ended.order
  )

/** The tools that the gateway brings itself: nobody sees their calls. */
const ownTools: ReadonlySet<string> = new Set(["find_tools", "load_recipe", "wait"])

const isOfClient = ({ tool }: Ended): boolean => clientTools.some(({ name }) => name === tool)

/** The writes with which the call has begun to wait for somebody, once it was to be made. */
const waitsOf = ({ commits }: Observed, { task_id }: Ended) =>
  commits.filter(({ changes }) =>
    changes.some((change) => change._tag === "WaitOpened" && change.task_id === task_id && change.kind !== "approval")
  )

const sessionOf = ({ plans }: Observed, { plan }: ObservedCall): string | undefined =>
  plans.find(({ name }) => name === plan)?.plan.session_id

/** Whether the call was not made, as it is told, since an earlier one has done the same: it has the result of that. */
const isRepeat = (observed: Observed, plan: ObservedPlan, { result, task_id }: Ended): boolean =>
  eventsOf(plan).some(({ data, event }) => {
    if (event !== "task.finished" || data.task_id !== task_id || data.repeat_of === undefined) return false
    const { repeat_of } = data
    const isOf = (one: { readonly task_id: TaskId }) => one.task_id === repeat_of
    const [made] = observed.calls.filter(isOf)
    // A task that its peer has handed back answers whoever goes on with it: a later call of its session.
    const isWithin = (one: ObservedCall) =>
      isOf(one) ||
      (made?.remote_task_id != null &&
        one.remote_task_id === made.remote_task_id &&
        sessionOf(observed, one) === sessionOf(observed, made))
    const isSaid = observed.calls.some((one) => isWithin(one) && result === one.result?.content)
    // What a call returned that has not completed is not known, though it has done its effect.
    const isStored = observed.plans.some((other) =>
      endedOf(observed, other).some((one) => isOf(one) && result === (one.state === "completed" ? one.result : ""))
    )
    return isSaid || isStored
  })

const isTrue = (observed: Observed, plan: ObservedPlan, call: Ended, end: PlanEnd | undefined): boolean => {
  const made = observed.calls.filter(({ task_id }) => task_id === call.task_id)
  const isOfTool = made.some((one) => isResult(one, call)) || isGiven(observed, call)
  switch (call.state) {
    case "completed":
      return isOfTool || ownTools.has(call.tool) || (made.length === 0 && isRepeat(observed, plan, call))
    case "interrupted":
      // It ends with its plan.
      return end?.order === call.ended.order && end.outcome.state !== "completed"
    case "rejected": {
      const isDoubted = call.code === "effect_unknown" && hasRival(intentsOf(observed), call.task_id)
      return isOfTool || (made.length === 0 && (isDoubted || isRefused(observed, plan, call)))
    }
    case "invalid":
      return isOfTool || (made.length === 0 && isStruck(observed, call))
    case "canceled":
      return isOfTool || made.some(({ cancels }) => cancels.length > 0)
    case "timed-out": {
      if (hasExpired(observed, plan, call.task_id, call.ended)) return true
      const isLate = call.ended.at - call.began.at >= limitOf(observed, plan) - slack
      // Its time stands still while it waits: only the store can have taken it before that, or a call that does the same.
      if (isOfClient(call)) {
        const isStopped = isLate && hasRival(intentsOf(observed), call.task_id)
        return waitsOf(observed, call).length === 0 && (isStopped || isHindered(observed, plan, call))
      }
      return isOfTool || isLate || isStruck(observed, call) || isHindered(observed, plan, call)
    }
    default:
      // A call whose process died before it left is unknown where it was to go.
      return isOfTool || isStruck(observed, call) || (made.length === 0 && isHindered(observed, plan, call))
  }
}

const isHindered = (observed: Observed, plan: ObservedPlan, { began, ended }: Ended): boolean =>
  ownersOf(observed, plan).some(({ replica }) => wasHindered(observed, replica, began.at - slack, ended.at))

/** Whether a process that takes a plan over may wait for long until it knows its agents and servers again. */
const isSlowWorld = ({ faults }: Observed): boolean =>
  faults.some(({ fault: { _tag } }) => ["Card", "McpServer", "NetworkSlow", "NetworkReset", "HalfOpen"].includes(_tag))

/** A call ends within its time, or a little later where another process has resumed it. */
const inItsTime = (observed: Observed, plan: ObservedPlan, call: Ended): ReadonlyArray<string> => {
  const { began, ended, key, named: namedAt } = call
  if (isOfClient(call)) {
    const [wait] = waitsOf(observed, call)
    // A call that does the same may have to end first.
    const by = expiresBy(observed, plan, wait?.at ?? began.at)
    return ended.at <= by
      ? []
      : [`call ${key} ends at ${seconds(ended.at)}, though its wait was over by ${seconds(by)}`]
  }
  // While its peer waits for an answer its clock stands still.
  const waited = waitsOf(observed, call)
  const limit = limitOf(observed, plan) + waited.reduce((sum, { at }) => sum + expiresBy(observed, plan, at) - at, 0)
  const taken = observed.takeOvers.findLast(
    ({ order, plan_id }) => plan_id === plan.plan.plan_id && order >= began.order && order <= ended.order
  )
  // By a clock that was set meanwhile, a call may have begun just now.
  const isSet = observed.faults.some(({ fault, from }) => fault._tag === "ClockStep" && from <= ended.at)
  const isNamed = taken !== undefined && namedAt < taken.order
  const look = isNamed && !isSet ? Math.min(lastLook, limit) : limit
  const resumed = taken === undefined ? 0 : taken.at - began.at + preparing + look
  const most = Math.max(limit, resumed) + slack
  const isLate =
    ended.at - began.at > most &&
    (taken === undefined
      ? !isHindered(observed, plan, call)
      : !isSlowWorld(observed) && !wasHindered(observed, taken.replica, taken.at, ended.at))
  return !isLate
    ? []
    : [`call ${key} ends at ${seconds(ended.at)}, though it began at ${seconds(began.at)} and has ${seconds(most)}`]
}

/** What is told of a call's work is told once. */
const artifactsAreOnce = (plan: ObservedPlan): ReadonlyArray<string> => {
  const told = new Set<string>()
  return eventsOf(plan).flatMap(({ data, event }) => {
    if (event !== "task.artifact") return []
    const artifact = JSON.stringify(data)
    const isAgain = told.has(artifact)
    told.add(artifact)
    return isAgain ? [`an artifact comes twice: ${artifact}`] : []
  })
}

/** What the model reads of a call is what its tool has said. */
const resultsAreRead = ({ sessions }: Observed, plan: ObservedPlan, ended: ReadonlyArray<Ended>) => {
  const said = new Map(ended.map(({ result, state, task_id }) => [task_id, { result, state }]))
  const messages = sessions.flatMap((session) =>
    session.messages.filter(({ plan_id }) => plan_id === plan.plan.plan_id)
  )
  return messages.flatMap(({ parts }) =>
    parts.flatMap((part) => {
      const told = part.type === "tool_result" ? said.get(part.task_id) : undefined
      if (part.type !== "tool_result" || told === undefined) return []
      const isSame = part.state === told.state
      const isRead = told.state !== "completed" || part.content.includes(told.result.slice(0, 1_000))
      return isSame && isRead ? [] : [`the model reads ${part.state} "${part.content}" of ${part.task_id}`]
    })
  )
}

/** A call's end is what its tool did, or names what struck it; it comes in its time; nothing of it is told twice. */
export const trueCalls = (observed: Observed): ReadonlyArray<string> =>
  observed.plans.flatMap((plan) => {
    const [end] = endsOf(observed, plan)
    const ended = endedOf(observed, plan)
    const untrue = ended.filter((call) => !isTrue(observed, plan, call, end))
    return [
      ...untrue.map(
        ({ code = "", key, result, state }) => `call ${key} is ${state} ${code} "${result}", and nothing has made it so`
      ),
      ...ended.flatMap((call) => inItsTime(observed, plan, call)),
      ...artifactsAreOnce(plan),
      ...resultsAreRead(observed, plan, ended)
    ].map((what) => `${named(plan)}: ${what}`)
  })
