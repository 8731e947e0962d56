import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { type TaskPlan, TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import type { ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import type { Options } from "@bowline/testing/simulation/Simulation"
import { Effect, Layer, Scope, Stream } from "effect"
import type { Plant } from "./HttpDoor.ts"

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
    frames: Stream.filter(opened.frames, (item) => !dropped(item))
  })

/** Pings are not written. */
const noPings = on(({ start }) => ({
  start: (asked) =>
    Effect.map(
      start(asked),
      without((item) => item === "ping")
    )
}))

/** The frame of the first word is not shown. */
const lostWord = on(({ start }) => ({
  start: (asked) => {
    let words = 0
    const isFirst = (item: ReaderItem) => typeof item !== "string" && item.event === "text.delta" && words++ === 0
    return Effect.map(start(asked), without(isFirst))
  }
}))

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
const talking = (
  name: "p0" | "p1" | "p2",
  words: number,
  pauseMs: number,
  onDisconnect: "cancel" | "continue",
  ...acts: Scenario["plans"][number]["acts"]
): Scenario => ({
  seed: 1,
  replicas: 1,
  plans: [
    {
      name,
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

interface Bug {
  readonly plant: Plant
  /** The rule that finds it. */
  readonly rule: string
  readonly scenario: Scenario
}

/** Bugs that an edge may have. */
export const bugs: Readonly<Record<string, Bug>> = {
  "a cursor that is off by one": {
    plant: offByOne,
    rule: "streams",
    scenario: talking(
      "p0",
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
    scenario: talking("p0", 20, 1_000, "cancel", { _tag: "Leave", at: 2_500 })
  },
  "pings that nobody writes": { plant: noPings, rule: "readers", scenario: talking("p0", 2, 25_000, "continue") },
  "a word that a chat lacks": { plant: lostWord, rule: "chats", scenario: talking("p1", 4, 100, "continue") },
  "a task that fails, unlike its plan": { plant: falseEnd, rule: "tasks", scenario: talking("p2", 4, 100, "continue") }
}
