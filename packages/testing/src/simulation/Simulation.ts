import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { type Array as Arrays, Cause, Duration, Effect, Layer } from "effect"
import { check, type Checker, checkers, type Violation } from "./check/Checkers.ts"
import { Cluster } from "./replica/Cluster.ts"
import { Course } from "./course/Course.ts"
import { Database } from "./world/Database.ts"
import { drawScenario, drawAppScenario } from "./course/DrawScenario.ts"
import { allFaults, type FaultKinds } from "./course/DrawFault.ts"
import { SeededRandom } from "./scenario/SeededRandom.ts"
import * as ReplicaClient from "./replica/ReplicaClient.ts"
import { Loop } from "./process/Loop.ts"
import * as Models from "./replica/Models.ts"
import type { Observed } from "./scenario/Observed.ts"
import * as Peers from "./world/Peers.ts"
import * as RealWorld from "./process/RealWorld.ts"
import * as Record from "./course/Record.ts"
import { configOf, type MakeReplicaClient, type Overrides } from "./replica/Replica.ts"
import { pays, type Scenario } from "./scenario/Scenario.ts"
import * as Servers from "./world/Servers.ts"
import * as Tools from "./world/Tools.ts"
import type { Asked } from "../provider/Script.ts"
import type { Turn } from "../provider/Turn.ts"
import { Wires } from "./world/Wires.ts"
import { print, type TraceLine, World } from "./world/World.ts"

export type { Checker, FaultKinds, MakeReplicaClient, Observed, Overrides, Scenario, TraceLine, Violation }
export { print }

/** What an app brings to one run. */
export interface AppWorld {
  /** Its tools, as `LocalTools.layer` gives them. Every process builds its own. */
  readonly tools?: Layer.Layer<never>
  /** What its model answers. */
  readonly script?: (asked: Asked) => Turn
  /** What its callers ask. Each question has `FACT-` and the name of its plan in front. */
  readonly questions?: Arrays.NonEmptyReadonlyArray<string>
  /** Its rules, beside those of the gateway: they may look at what its tools have done in this run. */
  readonly rules?: Readonly<Record<string, Checker>>
}

/** What a run begins with. */
export interface Options {
  readonly seed: number
  /** Makes what an app brings, anew for each run: what its tools remember is of one run, also while a seed is shrunk. */
  readonly world?: () => AppWorld
  /** What happens, instead of what the seed draws. */
  readonly scenario?: Scenario
  /** Ends the run after so many steps, each of which is one task of a process. Then nothing is checked. */
  readonly steps?: number
  readonly faults?: FaultKinds
  readonly config?: Partial<PlansConfig["Service"]>
  /** What a test puts in the place of parts of every replica, such as a store with a bug. */
  readonly overrides?: Overrides
  /** What all replicas share: the stores in memory, or those of SQL on PGlite, which take about five times as long. `memory`, unless it is given. */
  readonly store?: "memory" | "pglite"
  /** How callers reach a replica. By themselves they call its services. */
  readonly client?: MakeReplicaClient
  /** Rules beside those of the gateway. */
  readonly rules?: Readonly<Record<string, Checker>>
}

/** What a run has shown. */
export interface SimulationResult {
  readonly scenario: Scenario
  readonly observed: Observed
  readonly trace: ReadonlyArray<TraceLine>
  /** Uses of a real clock, timer, random, socket or file, with their places. */
  readonly misuse: ReadonlyArray<string>
  /** What must not have happened, misuse too. Nothing is checked of a run that was ended before its end. */
  readonly violations: ReadonlyArray<Violation>
  readonly virtualMs: number
  /** As `Options.steps` counts them. */
  readonly steps: number
  /** What is on record of each plan that is over, as `bowline export` writes it. Only of a run in memory. */
  readonly records: () => ReadonlyArray<string>
}

/** Loaded before a run: its first compaction would read it from the disk. */
let tokenizer: Promise<unknown> | undefined

/**
 * Runs a world of callers, replicas of the gateway, a store, providers and peers in virtual time, by what the seed draws. The same seed gives
 * the same trace, byte for byte, in every process. Only one run at a time: while it lasts, real clocks and sockets are watched. Rejects, and names
 * the seed, where the run breaks off: nothing will ever happen any more, time does not pass any more, or a rule throws.
 *
 * @example
 * ```ts
 * import { print, simulate } from "@bowline/testing/simulation/Simulation"
 *
 * const { trace, virtualMs, violations } = await simulate({ seed: 7, steps: 1_000 })
 * console.log(`${virtualMs} ms, ${violations.length} violations`)
 * console.log(trace.map(print).join("\n"))
 * ```
 */
export const simulate = async (options: Options): Promise<SimulationResult> => {
  const {
    config = {},
    client = ReplicaClient.layerServices,
    faults = allFaults,
    overrides = {},
    seed,
    steps = Infinity
  } = options
  const { questions, rules: ofApp, script, tools: toolsOfApp } = options.world?.() ?? {}
  const scenario =
    options.scenario ?? (questions ? drawAppScenario(seed, questions, faults) : drawScenario(seed, faults))
  // Only a model that pays knows of tools for that.
  const tools =
    toolsOfApp ?? Layer.succeed(LocalTools, pays(scenario) ? [...Tools.tools, ...Tools.payments] : Tools.tools)
  const random = new SeededRandom(`run ${scenario.seed}`)
  const loop = new Loop(random.of("order"))
  const world = new World(loop, random)
  await (tokenizer ??= Promise.all([
    import("gpt-tokenizer/bpeRanks/o200k_base"),
    import("gpt-tokenizer/encoding/o200k_base")
  ]))
  // PGlite is loaded by runs on it alone.
  const pglite =
    options.store === "pglite" ? await (await import("./world/PgliteStore.ts")).open(overrides.sqlClient) : undefined
  const restore = RealWorld.watch((misuse) => void world.misuse.push(misuse), loop)
  try {
    const wires = new Wires(world)
    const database = await Database.open(world, pglite?.layer)
    const plans = new Map(scenario.plans.map((plan) => [plan.name, plan]))
    Models.serve(world, wires, {
      script,
      plans: () => plans,
      nameOf: (id) => database.nameOf(id),
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
    const day = config.budgetOf === undefined ? scenario.day : config.budgetOf(anonymous)
    world.day = day && { ...day, lifted: undefined }
    const budgetOf = () => (world.day?.lifted === undefined ? world.day : undefined)
    const { parkAfterMs } = scenario
    const parking = parkAfterMs === undefined ? {} : { parkAfter: Duration.millis(parkAfterMs) }
    const configured = configOf({ ...parking, ...config, budgetOf })
    const surroundings = { world, wires, database, config: configured, overrides, client, tools }
    const cluster = new Cluster(surroundings, scenario.replicas)
    const course = new Course({ world, wires, database, cluster, scenario, plans })
    let isOver = false
    world.process.fork(
      Effect.onExit(course.run, (exit) =>
        Effect.sync(() => {
          isOver = true
          if (exit._tag === "Failure") world.misuse.push(`The simulation failed: ${Cause.pretty(exit.cause)}`)
        })
      )
    )
    await loop.run(() => isOver || loop.tasks >= steps)
    const observed = Record.collect({
      world,
      database,
      cluster,
      wires,
      plans,
      faultsEnd: course.faultsEnd,
      idle: course.idle
    })
    const { misuse, trace } = world
    const rules = isOver ? { ...checkers, ...options.rules, ...ofApp, "real world": () => misuse } : {}
    return {
      scenario,
      observed,
      trace,
      misuse,
      violations: check(observed, rules),
      virtualMs: loop.now,
      steps: loop.tasks,
      records: () => Record.exported({ database, world })
    }
  } catch (cause) {
    throw new Error(`The run of seed ${seed} broke off`, { cause })
  } finally {
    restore()
    await pglite?.close()
  }
}
