import { CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Context, Duration, Effect, Fiber } from "effect"
import { Caller } from "../replica/Callers.ts"
import type { Cluster } from "../replica/Cluster.ts"
import type { Database } from "../world/Database.ts"
import { injectFaults } from "./InjectFaults.ts"
import type { Load } from "../process/Process.ts"
import { models } from "../replica/Replica.ts"
import { plainPlan, type Scenario, type ScenarioPlan, uploadMs } from "../scenario/Scenario.ts"
import type { Wires } from "../world/Wires.ts"
import type { World } from "../world/World.ts"

/** How long after its deadline, and the time of a lease, a plan may still be open before the run goes on without it, in milliseconds. */
const tooLate = 75_000

/** How long everything has to come to rest after the last plan, in milliseconds. */
const rest = 12_000

/** How much longer it has where plans are parked: for 16 s a process asks the others whether somebody reads one. */
const restOfParked = 16_000

/** How long the last questions have, in milliseconds. */
const probing = 240_000

interface Parts {
  readonly world: World
  readonly wires: Wires
  readonly database: Database
  readonly cluster: Cluster
  readonly scenario: Scenario
  /** The plans that providers know: the probes come to them. */
  readonly plans: Map<string, ScenarioPlan>
}

/** How long the calls of a plan may wait for somebody, in milliseconds: each for a decision, and then for a result. */
const waitsOf = ({ steps, waitMs = 0 }: ScenarioPlan): number => 2 * waitMs * steps.length

/** As an operator does: the windows of long ago are no reason why a probe fails. */
const clearWindows = ({ database }: Parts): Effect.Effect<void> => {
  const credentials = Context.get(database.stores, CredentialStore)
  return Effect.flatMap(Effect.orDie(credentials.list), (rows) =>
    Effect.forEach(
      rows,
      // A window of all credentials of a provider goes with any of them.
      ({ credential, provider }) => Effect.orDie(credentials.clear(provider, credential ?? "")),
      { discard: true }
    )
  )
}

/**
 * What a run goes through: callers ask while faults strike; then all processes run, and everything ends; then every session is asked once
 * more, and everything comes to rest.
 */
export class Course {
  /** When the last fault was over, in milliseconds of virtual time. */
  faultsEnd = 0
  /** What goes on in a process that has not had a plan yet. */
  idle: Load = { fibers: Infinity, timers: Infinity }
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  readonly run: Effect.Effect<void> = Effect.suspend(() => this.#run())

  readonly #run = Effect.fnUntraced(function* (this: Course) {
    const { cluster, scenario, world } = this.#parts
    this.idle = (yield* cluster.awaitUp(0)).process.load
    const { leaseTtl, streamGrace } = cluster.surroundings.config
    const longest = Math.max(
      ...scenario.plans.map((plan) => plan.at + plan.timeoutMs + waitsOf(plan)),
      ...scenario.plans.flatMap(({ acts, at }) =>
        acts.flatMap((act) => (act._tag === "Upload" ? [at + act.at + 2 * uploadMs(act)] : []))
      )
    )
    const patience = longest + Duration.toMillis(leaseTtl) + tooLate
    const calling = yield* Effect.forkChild(Effect.timeoutOption(this.#ask(scenario.plans), 2 * patience))
    yield* injectFaults(this.#parts, scenario.faults)
    yield* Effect.raceFirst(Fiber.await(calling), cluster.awaitGone)
    this.faultsEnd = world.now
    world.tell("world", "", "no more faults")
    for (const [place, { process }] of cluster.all.entries()) if (!process.isAlive) cluster.start(place)
    yield* Fiber.join(calling)
    yield* this.#awaitEnds(world.now + patience)
    yield* clearWindows(this.#parts)
    if (world.day !== undefined) world.day.lifted = world.moment()
    yield* Effect.timeoutOption(this.#ask(this.#probes()), probing)
    yield* Effect.sleep(rest + (scenario.parkAfterMs === undefined ? 0 : restOfParked) + Duration.toMillis(streamGrace))
    // What was asked at a slow store may have been created since.
    yield* this.#awaitEnds(world.now + patience)
    yield* cluster.awaitIdle(this.idle)
  })

  #ask(plans: ReadonlyArray<ScenarioPlan>): Effect.Effect<void> {
    return Effect.forEach(plans, (plan) => new Caller(this.#parts, plan).run, {
      concurrency: "unbounded",
      discard: true
    })
  }

  /** A question for each session, on any of the wires: what is stored can be sent on each. */
  #probes(): ReadonlyArray<ScenarioPlan> {
    const { plans, scenario, world } = this.#parts
    const random = world.random.of("probes")
    const sessions = Array.from(new Set(scenario.plans.map(({ session }) => session)))
    return sessions.map((session, index) => {
      const model = random.pick(models)
      const probe = { ...plainPlan, name: `probe${index}`, session, replica: index, model }
      plans.set(probe.name, probe)
      world.probes.push(probe.name)
      return probe
    })
  }

  /** Waits until every plan is over, or until the time has passed. */
  #awaitEnds(until: number): Effect.Effect<void> {
    const { database, world } = this.#parts
    const plans = Context.get(database.stores, PlanStore)
    const callers = new Set(Array.from(database.created.values(), ({ caller }) => caller))
    const open = Effect.forEach(callers, (caller) =>
      plans.list(caller, { states: ["queued", "running", "waiting"] }, { limit: 1 })
    )
    return Effect.flatMap(Effect.orDie(open), (lists) =>
      lists.every(({ items }) => items.length === 0) || world.now >= until
        ? Effect.void
        : Effect.andThen(
            Effect.sleep(500),
            Effect.suspend(() => this.#awaitEnds(until))
          )
    )
  }
}
