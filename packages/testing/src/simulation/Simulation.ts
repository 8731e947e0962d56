import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import { CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { type Array as Arrays, Cause, Context, Effect, Fiber, Layer } from "effect"
import { check, type Checker, checkers, type Violation } from "./check/Checkers.ts"
import { Caller } from "./Callers.ts"
import { Cluster } from "./Cluster.ts"
import { Database } from "./Database.ts"
import { draw } from "./Draw.ts"
import { allFaults, type FaultKinds } from "./DrawFault.ts"
import { Draws } from "./Draws.ts"
import * as Door from "./Door.ts"
import * as Faults from "./Faults.ts"
import { Loop } from "./Loop.ts"
import * as Models from "./Models.ts"
import type { Observed } from "./Observed.ts"
import * as Peers from "./Peers.ts"
import type { Load } from "./Process.ts"
import * as RealWorld from "./RealWorld.ts"
import * as Record from "./Record.ts"
import type { MakeDoor, Plant } from "./Replica.ts"
import { plainPlan, type Scenario, type ScenarioPlan } from "./Scenario.ts"
import * as Servers from "./Servers.ts"
import type { TraceLine } from "./Trace.ts"
import * as Tools from "./Tools.ts"
import type { Asked } from "../provider/Script.ts"
import type { Turn } from "../provider/Turn.ts"
import { Wires } from "./Wires.ts"
import { World } from "./World.ts"

export type { Checker, FaultKinds, Observed, Plant, Scenario, TraceLine, Violation }

/** What an app brings. */
export interface AppWorld {
  /** Its tools, as `LocalTools.layer` gives them. Every process builds its own. */
  readonly tools?: Layer.Layer<never>
  /** What its model answers. */
  readonly script?: (asked: Asked) => Turn
  /** What its callers ask. Each question has `FACT-` and the name of its plan in front. */
  readonly questions?: Arrays.NonEmptyReadonlyArray<string>
}

/** What a run begins with. */
export interface Options {
  readonly seed: number
  readonly world?: AppWorld
  /** What happens, instead of what the seed draws. */
  readonly scenario?: Scenario
  /** Ends the run behind so many tasks. */
  readonly steps?: number
  readonly faults?: FaultKinds
  readonly config?: Partial<PlansConfig["Service"]>
  /** What a test puts in the place of parts of the gateway. */
  readonly plant?: Plant
  /** How callers come in. By themselves they call the services. */
  readonly door?: MakeDoor
  /** Rules of an app, beside those of the gateway. */
  readonly rules?: Readonly<Record<string, Checker>>
}

/** What a run has shown. */
export interface Outcome {
  readonly scenario: Scenario
  readonly observed: Observed
  readonly trace: ReadonlyArray<TraceLine>
  /** Uses of a real clock, timer, random, socket or file, with their places. */
  readonly misuse: ReadonlyArray<string>
  /** What must not have happened, misuse too. Nothing is checked of a run that was ended before its end. */
  readonly violations: ReadonlyArray<Violation>
  readonly virtualMs: number
  readonly tasks: number
}

/** How long after its deadline a plan may still be open before the run goes on without it, in milliseconds. */
const tooLate = 90_000

/** How long everything has to come to rest behind the last plan, in milliseconds. */
const rest = 12_000

const probeOf = (session: string, index: number, question: string | undefined): ScenarioPlan => ({
  ...plainPlan,
  ...(question !== undefined && { question }),
  name: `probe${index}`,
  session,
  replica: index
})

const defaultTools = Layer.succeed(LocalTools, Tools.tools)

const withQuestions = (scenario: Scenario, questions: AppWorld["questions"]): Scenario =>
  questions === undefined
    ? scenario
    : {
        ...scenario,
        plans: scenario.plans.map((plan, index) => ({
          ...plan,
          question: questions[index % questions.length] ?? questions[0]
        }))
      }

/**
 * Runs a world of callers, replicas of the gateway, a store, providers and peers in virtual time, by what the seed draws. The same seed gives
 * the same trace, byte for byte, in every process. Only one run at a time: while it lasts, real clocks and sockets are watched.
 *
 * @example
 * ```ts
 * import { simulate } from "@bowline/testing/simulation/Simulation"
 *
 * const { virtualMs, violations } = await simulate({ seed: 7, steps: 1_000 })
 * console.log(`${virtualMs} ms, ${violations.length} violations`)
 * ```
 */
export const simulate = async (options: Options): Promise<Outcome> => {
  const { config = {}, door = Door.layerServices, faults = allFaults, plant = {}, seed, steps = Infinity } = options
  const { questions, script, tools = defaultTools } = options.world ?? {}
  const scenario = options.scenario ?? withQuestions(draw(seed, faults), questions)
  const draws = new Draws(`run ${scenario.seed}`)
  const loop = new Loop(draws.of("order"))
  const world = new World(loop, draws)
  // The first compaction would read it from the disk.
  await import("gpt-tokenizer/encoding/o200k_base")
  const restore = RealWorld.watch((misuse) => void world.misuse.push(misuse), loop)
  try {
    const wires = new Wires(world)
    const database = new Database(world)
    const plans = new Map(scenario.plans.map((plan) => [plan.name, plan]))
    Models.serve(world, wires, {
      script,
      plans: () => plans,
      faultOf: (plan, request) =>
        scenario.faults.flatMap((fault) =>
          fault._tag === "Provider" && fault.plan === plan && fault.request === request ? [fault.does] : []
        )[0]
    })
    world.process.fork(
      Peers.serve(
        world,
        wires,
        (key) => scenario.faults.flatMap((fault) => (fault._tag === "Peer" && fault.key === key ? [fault.does] : []))[0]
      )
    )
    world.process.fork(
      Servers.serve(
        world,
        wires,
        (key) => scenario.faults.flatMap((fault) => (fault._tag === "Mcp" && fault.key === key ? [fault.does] : []))[0]
      )
    )
    const cluster = new Cluster({ world, wires, database, config, plant, door, tools }, scenario.replicas)
    const stage = { world, cluster }
    let faultsEnd = 0
    let idle: Load = { fibers: Infinity, timers: Infinity }

    const run = Effect.gen(function* () {
      idle = (yield* cluster.awaitUp(0)).process.load
      const theatre = { world, wires, cluster }
      const callers = Effect.forEach(scenario.plans, (plan) => new Caller(stage, plan).run, {
        concurrency: "unbounded",
        discard: true
      })
      const patience = Math.max(...scenario.plans.map(({ at, timeoutMs }) => at + timeoutMs)) + tooLate
      const calling = yield* Effect.forkChild(Effect.timeoutOption(callers, 2 * patience))
      yield* Faults.run(theatre, scenario.faults)
      yield* Effect.raceFirst(Fiber.await(calling), cluster.awaitGone)
      faultsEnd = world.now
      world.tell("world", "", "no more faults")
      yield* Effect.forEach(cluster.all, ({ process }, place) =>
        Effect.sync(() => void (process.isAlive || cluster.start(place)))
      )
      yield* Fiber.await(calling)
      yield* awaitEnds(database, world.now + patience)
      // As an operator does: the windows of long ago are no reason why a probe fails.
      const credentials = Context.get(database.stores, CredentialStore)
      for (const { credential, provider } of yield* Effect.orDie(credentials.list)) {
        if (credential !== null) yield* Effect.orDie(credentials.clear(provider, credential))
      }
      const sessions = Array.from(new Set(scenario.plans.map(({ session }) => session)))
      const probes = sessions.map((session, index) => probeOf(session, index, questions?.[0]))
      for (const probe of probes) plans.set(probe.name, probe)
      yield* Effect.forEach(probes, (probe) => new Caller(stage, probe).run, { concurrency: "unbounded" }).pipe(
        Effect.timeoutOption(240_000)
      )
      yield* Effect.sleep(rest)
      yield* cluster.awaitIdle(idle)
    })
    let isOver = false
    world.process.fork(
      Effect.onExit(run, (exit) =>
        Effect.sync(() => {
          isOver = true
          if (exit._tag === "Failure") world.misuse.push(`The simulation failed: ${Cause.pretty(exit.cause)}`)
        })
      )
    )
    await loop.run(() => isOver || loop.tasks >= steps)
    const observed = Record.collect({ world, database, cluster, wires, faultsEnd, idle })
    const { misuse, trace } = world
    const rules = isOver ? { ...checkers, ...options.rules, "real world": () => misuse } : {}
    return {
      scenario,
      observed,
      trace,
      misuse,
      violations: check(observed, rules),
      virtualMs: loop.now,
      tasks: loop.tasks
    }
  } finally {
    restore()
  }
}

/** Waits until every plan is over, or until the time has passed. */
const awaitEnds = (database: Database, until: number): Effect.Effect<void> =>
  Effect.suspend(() => {
    const states = ["queued", "running"] as const
    return Effect.orDie(Context.get(database.stores, PlanStore).list(anonymous, { states }, { limit: 1 })).pipe(
      Effect.flatMap(({ items }) =>
        items.length === 0 || database.now >= until
          ? Effect.void
          : Effect.andThen(
              Effect.sleep(500),
              Effect.suspend(() => awaitEnds(database, until))
            )
      )
    )
  })
