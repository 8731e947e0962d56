import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { type TaskPlan, TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import { type FollowedPlan, PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import type { ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import type { Options } from "@bowline/testing/simulation/Simulation"
import { Effect, Layer, Scope, Stream } from "effect"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { GatewayConfig } from "../../src/config/GatewayConfig.ts"
import { Plans } from "@bowline/runtime/plan/Plans"
import * as Usage from "@bowline/domain/plan/Usage"
import type { Plant, Way } from "./HttpReplicaClient.ts"
import { ann } from "./Keys.ts"

type Scenario = NonNullable<Options["scenario"]>
type Streams = PlanStreams["Service"]
type Opened = Effect.Success<ReturnType<Streams["read"]>>

const on = (bug: (streams: Streams) => Partial<Streams>): Plant =>
  Layer.effect(
    PlanStreams,
    Effect.map(PlanStreams, (streams) => ({ ...streams, ...bug(streams) }))
  )

/** `Last-Event-ID` is taken for the next frame. */
const offByOne = on(({ read }) => ({
  read: (caller, plan, after) => read(caller, plan, Math.max(0, after - 1))
}))

/** Nobody learns that the connection has ended. */
const deafToTheEnd = on(({ start }) => ({
  start: (asked) =>
    Effect.map(
      Effect.suspend(() => Scope.provide(start(asked), Scope.makeUnsafe())),
      (opened) => ({
        ...opened,
        connect: () => () => {}
      })
    )
}))

const without =
  (dropped: (item: ReaderItem) => boolean) =>
  (opened: Opened): Opened => ({
    ...opened,
    frames: Stream.filter(opened.frames, (item) => !dropped(item)),
    shortCut: (write) =>
      opened.shortCut?.((frames) => {
        const left = frames.filter((frame) => !dropped(frame))
        return left.length === 0 || write(left)
      })
  })

/** Pings are not written. */
const noPings = on(({ start }) => ({
  start: (asked) =>
    Effect.map(
      start(asked),
      without((item) => item === "ping")
    )
}))

/** Leaves out the frame of the first word. */
const withoutFirstWord = <E, R>(opening: Effect.Effect<Opened, E, R>) => {
  let first: number | undefined
  const isFirst = (item: ReaderItem) =>
    typeof item !== "string" && item.event === "text.delta" && item.seq === (first ??= item.seq)
  return Effect.map(opening, without(isFirst))
}

/** The frame of the first word is not shown to the caller that asks. */
const lostWord = on(({ start }) => ({ start: (asked) => withoutFirstWord(start(asked)) }))

/** A whole answer is told as one that was cut. */
const otherStop = on(({ start }) => ({
  start: (asked) =>
    Effect.map(start(asked), (opened) => ({
      ...opened,
      frames: Stream.map(opened.frames, (item) =>
        typeof item === "string" || item.event !== "final"
          ? item
          : { ...item, payload: item.payload.replace('"stop_reason":"stop"', '"stop_reason":"max_tokens"') }
      )
    }))
}))

/** Changes what the first one sees that follows a plan. */
const onFirstRead = (bug: (frames: FollowedPlan["frames"]) => FollowedPlan["frames"]): Plant =>
  Layer.effect(
    PlanFollower,
    Effect.map(PlanFollower, (follower) => {
      let reads = 0
      const spoilt = (followed: FollowedPlan): FollowedPlan => {
        const { leaveRunning, plan_id, session_id } = followed
        const connect: FollowedPlan["connect"] = (close) => followed.connect(close)
        return { plan_id, session_id, leaveRunning, connect, frames: bug(followed.frames) }
      }
      return {
        ...follower,
        read: (...given) =>
          Effect.map(follower.read(...given), (followed) => (reads++ === 0 ? spoilt(followed) : followed))
      }
    })
  )

/** Who reads on gets the last frame once more. */
const lastAgain: Plant = Layer.effect(
  PlanFollower,
  Effect.map(PlanFollower, (follower) => ({
    ...follower,
    read: (caller, plan, after) => follower.read(caller, plan, Math.max(0, after - 1))
  }))
)

/** The reader of a task fails. */
const brokenTask = onFirstRead(() => Stream.die("A bug"))

/** A word is taken for a call that waits for an approval. */
const approvedWord = onFirstRead(
  Stream.map((item) => {
    if (typeof item === "string" || item.event !== "text.delta") return item
    const payload = { task_id: "task_1", tool: "work", input: {}, reason: "sensitive", expires_at: item.at }
    return { ...item, event: "approval.requested", payload: JSON.stringify(payload) }
  })
)

const onPlans = (bug: (plans: Plans["Service"]) => Partial<Plans["Service"]>): Plant =>
  Layer.effect(
    Plans,
    Effect.map(Plans, (plans) => ({ ...plans, ...bug(plans) }))
  )

/** A plan that is over says that it has used nothing. */
const noUsage = onPlans(({ get }) => ({
  get: (...given) =>
    Effect.map(get(...given), (plan) => ({
      ...plan,
      usage: Usage.empty,
      final: plan.final && { ...plan.final, usage: Usage.empty }
    }))
}))

/** A cancel does nothing. */
const deafToCancels = onPlans(({ get }) => ({ cancel: (...given) => get(...given) }))

/** Whoever asks, a plan of the first caller is found. */
const openToAll = Layer.merge(
  on(({ read }) => ({ read: (_, plan, after) => read(ann.name, plan, after) })),
  onPlans(({ cancel, get }) => ({
    get: (_, plan) => get(ann.name, plan),
    cancel: (_, plan) => cancel(ann.name, plan)
  }))
)

/** No key is asked for. */
const noKeys: Plant = Layer.effect(
  GatewayConfig,
  Effect.map(GatewayConfig, (config) => ({ ...config, callerKeys: [] }))
)

const asFailed = (task: TaskPlan): TaskPlan => ({ ...task, plan: { ...task.plan, state: "failed" } })

/** A plan that is over has failed. */
const falseEnd: Plant = Layer.effect(
  TaskStore,
  Effect.map(TaskStore, (tasks) => ({
    ...tasks,
    plans: (...given) =>
      Effect.map(tasks.plans(...given), ([first, ...rest]) => {
        const isOver = first.plan.state === "completed"
        return [isOver ? asFailed(first) : first, ...rest] as const
      })
  }))
)

/** A plan that says a word every so many milliseconds. */
/** One plan that says so many words, and what its caller does. */
export const talking = (
  words: number,
  pauseMs: number,
  onDisconnect: "cancel" | "continue",
  ...acts: Scenario["plans"][number]["acts"]
): Scenario => ({
  seed: 1,
  replicas: 1,
  plans: [
    {
      name: "p0",
      session: "s0",
      at: 1,
      replica: 0,
      onDisconnect,
      onBusy: "queue",
      hasKey: true,
      timeoutMs: 120_000,
      readMs: 0,
      ballast: 0,
      steps: [{ words, pauseMs, calls: [] }],
      acts
    }
  ],
  faults: []
})

const short = talking(4, 100, "continue")

/** Two replicas, and a caller that asks many questions at each. */
const crowded: Scenario = {
  ...short,
  seed: 2,
  replicas: 2,
  plans: Array.from({ length: 8 }, (_, index) =>
    short.plans.map((plan) => ({
      ...plan,
      // The even ones are those of the first caller.
      name: `p${2 * index}`,
      session: `s${index}`,
      at: 100 * index,
      replica: index % 2
    }))
  ).flat()
}

interface Bug {
  readonly plant: Plant
  /** The rule that finds it. */
  readonly rule: string
  readonly way: Way
  readonly hasKeys?: boolean
  readonly scenario: Scenario
}

/** Bugs that an edge may have. */
export const bugs: Readonly<Record<string, Bug>> = {
  "a cursor that is off by one": {
    plant: offByOne,
    rule: "streams",
    way: "stream",
    scenario: talking(
      5,
      1_000,
      "continue",
      { _tag: "Leave", at: 2_500 },
      { _tag: "ComeBack", at: 3_000, replica: 0, from: "last" }
    )
  },
  "a disconnect that does not reach the plan": {
    plant: deafToTheEnd,
    rule: "readers",
    way: "stream",
    scenario: talking(20, 1_000, "cancel", { _tag: "Leave", at: 2_500 })
  },
  "pings that nobody writes": {
    plant: noPings,
    rule: "readers",
    way: "stream",
    scenario: talking(2, 25_000, "continue")
  },
  "a word that a chat lacks": { plant: lostWord, rule: "chats", way: "chat", scenario: short },
  "a chat that ends for another reason than its plan": {
    plant: otherStop,
    rule: "chats",
    way: "chat",
    scenario: short
  },
  "a response that is incomplete, unlike its plan": {
    plant: otherStop,
    rule: "responses",
    way: "response",
    scenario: short
  },
  "a task that fails, unlike its plan": {
    plant: falseEnd,
    rule: "tasks",
    way: "task",
    scenario: short
  },
  "a result that lacks the usage": {
    plant: noUsage,
    rule: "results",
    way: "json",
    scenario: short
  },
  "a word that a chat lacks that came as a whole": {
    plant: lostWord,
    rule: "completions",
    way: "whole chat",
    scenario: short
  },
  "a chat that came as a whole without its usage": {
    plant: noUsage,
    rule: "completions",
    way: "whole chat",
    scenario: short
  },
  "a word that a response lacks that came as a whole": {
    plant: lostWord,
    rule: "responses",
    way: "whole response",
    scenario: { ...short, plans: short.plans.map((plan) => ({ ...plan, hasKey: false })) }
  },
  "a word that a response lacks": {
    plant: lostWord,
    rule: "responses",
    way: "response",
    scenario: short
  },
  "a task that has failed for the client that waits for it": {
    plant: falseEnd,
    rule: "tasks",
    way: "sent task",
    scenario: short
  },
  "a stream of a task that breaks off": {
    plant: brokenTask,
    rule: "tasks",
    way: "subscribed task",
    scenario: short
  },
  "an event that a task's reader gets again": {
    plant: lastAgain,
    rule: "tasks",
    way: "subscribed task",
    scenario: talking(10, 500, "continue")
  },
  "a task that waits for nothing": {
    plant: approvedWord,
    rule: "tasks",
    way: "task",
    scenario: short
  },
  "a cancel of a task that does not reach its plan": {
    plant: deafToCancels,
    rule: "cancels",
    way: "task",
    scenario: talking(20, 1_000, "continue", { _tag: "Cancel", at: 2_500, replica: 0 })
  },
  "a call of a tool that lacks the usage": {
    plant: noUsage,
    rule: "answers",
    way: "call",
    scenario: short
  },
  "a call whose caller leaves, and whose plan goes on": {
    plant: deafToCancels,
    rule: "answers",
    way: "call",
    scenario: talking(40, 1_000, "continue", { _tag: "Leave", at: 2_500 })
  },
  "a plan that another caller may read and cancel": {
    plant: openToAll,
    rule: "keys",
    way: "stream",
    hasKeys: true,
    scenario: crowded
  },
  "a gateway that asks for no key": {
    plant: noKeys,
    rule: "keys",
    way: "stream",
    hasKeys: true,
    scenario: short
  },
  "a rate of each replica": {
    plant: RateLimiter.layerStoreMemory,
    rule: "rates",
    way: "stream",
    hasKeys: true,
    scenario: crowded
  }
}
