import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import type { ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { Cause, Effect, Exit, Fiber, Schema, type Scope, Stream } from "effect"
import type { Cluster } from "./Cluster.ts"
import { Draws } from "./Draws.ts"
import type { ObservedReader, ObservedRequest } from "./Observed.ts"
import { agents, peerTools } from "./Peers.ts"
import { across } from "./Process.ts"
import { Broken, type Replica } from "./Replica.ts"
import type { CallerAct, ScenarioPlan } from "./Scenario.ts"
import { mcpServers, mcpTools } from "./Servers.ts"
import type { Open, World } from "./World.ts"

const decode = Schema.decodeUnknownSync(PlanRequest)

/** Until the caller knows the id of its plan. */
const nobody = PlanId.make("plan_00000000-0000-4000-8000-000000000000")

/** Words of no meaning, which no tokenizer makes short. They are few: it knows them the second time. */
const vocabulary = Array.from({ length: 64 }, (_, index) => {
  const draws = new Draws(`word ${index}`)
  return draws.bits().toString(36).padStart(7, "0")
})

const ballastOf = ({ ballast, name }: ScenarioPlan): string => {
  const draws = new Draws(`ballast of ${name}`)
  return Array.from({ length: Math.ceil(ballast / 8) }, () => vocabulary[draws.int(0, 63)]).join(" ")
}

const calls = ({ steps }: ScenarioPlan, tools: ReadonlyArray<string>): boolean =>
  steps.some(({ calls }) => calls.some(({ tool }) => tools.includes(tool)))

/** The request of a plan. */
export const requestOf = (plan: ScenarioPlan): PlanRequest =>
  decode({
    question: `FACT-${plan.name} ${plan.question ?? ""} ${ballastOf(plan)}`.trim(),
    session_id: plan.session,
    agents: calls(plan, peerTools) ? agents : [],
    mcp_servers: calls(plan, mcpTools) ? mcpServers : [],
    preferences: {
      on_disconnect: plan.onDisconnect,
      on_busy: plan.onBusy,
      timeout_ms: plan.timeoutMs,
      approval: plan.approval ?? "sensitive"
    }
  })

const decider = { caller: anonymous, isAdmin: false }

type Opened = Effect.Success<ReturnType<PlanStreams["Service"]["read"]>>

interface Stage {
  readonly world: World
  readonly cluster: Cluster
}

/** How a connection ended: behind `done`, before it, or with an error. */
type Ending = "done" | "closed" | "broken" | "left" | { readonly error: string }

/** One caller with one question: it reads the stream to its end, comes back when it breaks, and does what the scenario says. */
export class Caller {
  readonly #stage: Stage
  readonly #plan: ScenarioPlan
  readonly #request: PlanRequest
  readonly #name: string
  #plan_id: PlanId | undefined
  #seen = 0
  #isDone = false
  #isAway = false
  #leave: (() => void) | undefined
  /** The last connection. */
  #reader: Open<ObservedReader> | undefined

  constructor(stage: Stage, plan: ScenarioPlan, name = plan.name) {
    this.#stage = stage
    this.#plan = plan
    this.#name = name
    this.#request = requestOf(plan)
  }

  /** Ends when the caller has seen the end of its plan, or has given it up. */
  readonly run: Effect.Effect<void> = Effect.suspend(() =>
    Effect.gen({ self: this }, function* () {
      yield* Effect.sleep(this.#plan.at)
      const acts = yield* Effect.forkChild(
        Effect.forEach(this.#plan.acts, (act) => Effect.delay(this.#act(act), act.at), { concurrency: "unbounded" })
      )
      yield* this.#follow(this.#plan.replica)
      yield* Fiber.await(acts)
    })
  )

  /** Asks, and reads until there is no more; comes back as often as it takes. */
  #follow(place: number): Effect.Effect<void> {
    const { cluster, world } = this.#stage
    return Effect.gen({ self: this }, function* () {
      for (let tries = 0; tries < 200 && !this.#isDone && !this.#isAway; tries++) {
        const replica = yield* cluster.awaitUp(place + tries)
        const ending = yield* this.#plan_id === undefined ? this.#ask(replica) : this.#read(replica, this.#seen)
        if (ending === "done" || ending === "left") return
        // Without a key, nobody knows whether the plan is stored: to ask again may start it twice.
        const mayAsk = this.#plan_id !== undefined || this.#plan.hasKey
        if (!mayAsk || (typeof ending === "object" && !isPassing(ending.error))) {
          world.tell("caller", this.#plan.name, `gives up: ${typeof ending === "object" ? ending.error : ending}`)
          return
        }
        yield* Effect.sleep(world.process.draws.int(50, 1_000))
      }
    })
  }

  #ask(replica: Replica): Effect.Effect<Ending> {
    const request = this.#request
    const { hasKey, name } = this.#plan
    this.#stage.world.tell("caller", name, `asks ${replica.name}`)
    const asked = {
      caller: anonymous,
      request,
      ...(hasKey && { idempotency: idempotency(`key-${name}`, request) })
    }
    return this.#connect(replica, 0, (streams) => streams.start(asked), "ask")
  }

  #read(replica: Replica, after: number): Effect.Effect<Ending> {
    const { world } = this.#stage
    const id = this.#plan_id
    if (id === undefined) return Effect.succeed("closed")
    world.tell("caller", this.#plan.name, `reads at ${replica.name} behind ${after}`)
    return this.#connect(replica, after, (streams) => streams.read(anonymous, id, after))
  }

  /** One connection, which lives in both processes. */
  #connect<E extends { readonly _tag: string }>(
    replica: Replica,
    after: number,
    open: (streams: PlanStreams["Service"]) => Effect.Effect<Opened, E, Scope.Scope>,
    what?: ObservedRequest["what"]
  ): Effect.Effect<Ending> {
    const { world } = this.#stage
    const streams = replica.services?.streams
    if (streams === undefined) return Effect.succeed("broken")
    const request = what && this.#requested(what, replica)
    const reader: Open<ObservedReader> = {
      reader: this.#name,
      plan_id: this.#plan_id ?? nobody,
      replica: replica.name,
      after,
      began: world.moment(),
      frames: [],
      ended: undefined
    }
    this.#reader = reader
    let isOpen = true
    const told = (opened: Opened) =>
      across(
        replica.process,
        world.process,
        Effect.sync(() => {
          if (request !== undefined) request.ended = world.moment()
          this.#plan_id = opened.plan_id
          reader.plan_id = opened.plan_id
          world.readers.push(reader)
        })
      )
    const deliver = (items: ReadonlyArray<ReaderItem>) =>
      across(
        replica.process,
        world.process,
        Effect.forEach(
          items,
          (item) =>
            Effect.andThen(
              this.#plan.readMs > 0 && typeof item !== "string" ? Effect.sleep(this.#plan.readMs) : Effect.void,
              Effect.sync(() => {
                if (isOpen) this.#take(item, reader)
              })
            ),
          { discard: true }
        )
      )
    const serve = Effect.gen(function* () {
      const opened = yield* open(streams)
      yield* told(opened)
      yield* Effect.raceFirst(
        Stream.runForEachArray(opened.frames, deliver),
        Effect.callback<void>((resume) => {
          opened.connect(() => resume(Effect.void))
        })
      )
    }).pipe(Effect.scoped)
    const served = across(world.process, replica.process, serve, Effect.die(new Broken()))
    return Effect.gen({ self: this }, function* () {
      const fiber = yield* Effect.forkChild(Effect.exit(served), { startImmediately: true })
      const leaving = Effect.callback<"left">((resume) => {
        this.#leave = () => resume(Effect.succeed("left"))
      })
      const exit = yield* Effect.raceFirst(Fiber.join(fiber), leaving)
      isOpen = false
      if (exit === "left") yield* Fiber.interrupt(fiber)
      this.#leave = undefined
      const ending = exit === "left" ? exit : this.#endingOf(exit)
      const how = typeof ending === "object" ? "closed" : ending
      reader.ended = { ...world.moment(), how: this.#isAway ? "left" : how }
      if (request !== undefined && request.ended === undefined && how !== "broken") request.ended = world.moment()
      world.tell("caller", this.#plan.name, `${how === "done" ? "has seen the end" : how} at ${replica.name}`)
      return ending
    })
  }

  #endingOf(exit: Exit.Exit<void, { readonly _tag: string }>): Ending {
    if (this.#isDone) return "done"
    if (Exit.isSuccess(exit)) return "closed"
    const error = Cause.squash(exit.cause)
    if (error instanceof Broken) return "broken"
    return {
      error: typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : String(error)
    }
  }

  #take(item: ReaderItem, reader: Open<ObservedReader>): void {
    if (typeof item === "string") return
    const { world } = this.#stage
    reader.frames.push({ frame: item, ...world.moment() })
    this.#seen = item.seq
    if (item.event === "done") this.#isDone = true
  }

  #requested(what: ObservedRequest["what"], replica: Replica): Open<ObservedRequest> {
    const { world } = this.#stage
    const request = { what, plan: this.#plan.name, replica: replica.name, began: world.moment(), ended: undefined }
    world.requests.push(request)
    return request
  }

  #act(act: CallerAct): Effect.Effect<void> {
    const { cluster, world } = this.#stage
    return Effect.gen({ self: this }, function* () {
      if (this.#isDone && act._tag !== "ComeBack" && act._tag !== "AskAgain") return
      world.tell("caller", this.#plan.name, act._tag)
      switch (act._tag) {
        case "Leave":
          this.#isAway = true
          this.#leave?.()
          if (this.#reader?.ended?.how === "broken") this.#reader.ended = { ...this.#reader.ended, how: "left" }
          return
        case "ComeBack": {
          if (act.from === "last" && this.#isDone) return
          if (act.from === "start") this.#seen = 0
          this.#isDone = false
          this.#leave?.()
          this.#isAway = false
          if (this.#plan_id === undefined && !this.#plan.hasKey) return
          return yield* this.#follow(act.replica)
        }
        case "Cancel": {
          const id = this.#plan_id
          const replica = yield* cluster.awaitUp(act.replica)
          const plans = replica.services?.plans
          if (id === undefined || plans === undefined) return
          const request = this.#requested("cancel", replica)
          const refused = () => void (request.isRefused = true)
          const cancelling = Effect.match(plans.cancel(anonymous, id), { onFailure: refused, onSuccess: () => {} })
          yield* across(world.process, replica.process, cancelling, Effect.void)
          if (replica.process.isAlive) request.ended = world.moment()
          return
        }
        case "AskAgain": {
          if (!this.#plan.hasKey) return
          const plan = { ...this.#plan, acts: [], at: 0, replica: act.replica }
          const again = new Caller(this.#stage, plan, `${plan.name} again`)
          return yield* again.run
        }
        case "Decide": {
          const id = this.#plan_id
          const replica = yield* cluster.awaitUp(act.replica)
          const plans = replica.services?.plans
          if (id === undefined || plans === undefined) return
          const request = this.#requested("decide", replica)
          const decision = act.approves ? "approve" : "reject"
          const deciding = Effect.gen(function* () {
            const { items } = yield* plans.approvals(anonymous, { limit: 100 })
            const own = items.filter(({ plan_id }) => plan_id === id)
            yield* Effect.forEach(own, (approval) => plans.decide(decider, approval, { decision }), { discard: true })
          })
          yield* across(world.process, replica.process, Effect.ignore(deciding), Effect.void)
          if (replica.process.isAlive) request.ended = world.moment()
        }
      }
    })
  }
}

/** Whether the same request may have another answer a little later. */
const isPassing = (error: string): boolean => error === "StorageError" || error === "NotAccepting"
