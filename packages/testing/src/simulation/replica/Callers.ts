import type { Decision } from "@bowline/domain/plan/Approval"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { Effect, Fiber } from "effect"
import type { Cluster } from "./Cluster.ts"
import type { Asked, Audience, Gift, ReplicaClient, Waiting } from "./ReplicaClient.ts"
import { SeededRandom } from "../scenario/SeededRandom.ts"
import type { ObservedGiven, ObservedRequest, ObservedSaid } from "../scenario/Observed.ts"
import * as Bank from "../world/Bank.ts"
import type { Database } from "../world/Database.ts"
import { agentsOf } from "../world/Peers.ts"
import { type Ending, type Progress, Reading } from "./Reading.ts"
import type { Replica } from "./Replica.ts"
import type { CallerAct, ScenarioCall, ScenarioPlan } from "../scenario/Scenario.ts"
import { serversOf } from "../world/Servers.ts"
import { upload } from "./Uploading.ts"
import { clientTools } from "../world/Tools.ts"
import { type Open, saidText, type World } from "../world/World.ts"

/** What callers do although their plan is over. */
const outlasting: ReadonlySet<CallerAct["_tag"]> = new Set<CallerAct["_tag"]>(["ComeBack", "AskAgain", "Say", "Upload"])

type Give = Extract<CallerAct, { readonly _tag: "Give" }>

/** Words of no meaning, which no tokenizer makes short. They are few: it knows them the second time. */
const vocabulary = Array.from({ length: 64 }, (_, index) => {
  const random = new SeededRandom(`word ${index}`)
  return random.bits().toString(36).padStart(7, "0")
})

const ballastOf = ({ ballast, name }: ScenarioPlan): string => {
  const random = new SeededRandom(`ballast of ${name}`)
  return Array.from({ length: Math.ceil(ballast / 8) }, () => vocabulary[random.int(0, 63)]).join(" ")
}

/** The tools that a plan calls. */
const toolsOf = ({ only, steps }: ScenarioPlan): ReadonlyArray<string> => [
  ...(only === undefined ? [] : [only.tool]),
  ...steps.flatMap(({ calls }) => calls.map(({ tool }) => tool))
]

const schema = { type: "object", properties: { done: { type: "string" } }, required: ["done"] }

/** The skill that a call names by its tool. */
const skillCallOf = ({ key, ms, tool }: ScenarioCall) => {
  const [agent = "", skill = ""] = tool.split("_")
  return { agent, skill, input: { input: JSON.stringify({ key, ms }) } }
}

const clientToolsOf = (plan: ScenarioPlan) => {
  const tools = clientTools.filter(({ name }) => toolsOf(plan).includes(name))
  return tools.length === 0 ? {} : { tools }
}

/** The body of the request for a plan. */
const questionOf = (plan: ScenarioPlan) => ({
  question: `FACT-${plan.name} ${plan.question ?? ""} ${ballastOf(plan)}`.trim(),
  session_id: plan.session,
  agents: agentsOf(toolsOf(plan)),
  mcp_servers: serversOf(toolsOf(plan)).map((server) => ({
    ...server,
    ...(plan.needsServers === true && { required: true })
  })),
  ...clientToolsOf(plan),
  ...(plan.only !== undefined && { call: skillCallOf(plan.only) }),
  preferences: {
    on_disconnect: plan.onDisconnect,
    on_busy: plan.onBusy,
    timeout_ms: plan.timeoutMs,
    approval: plan.approval ?? "sensitive",
    ...(plan.model !== undefined && { model: plan.model }),
    ...(plan.waitMs !== undefined && { wait_timeout_ms: plan.waitMs }),
    ...(plan.answers === true && { on_input_required: "wait" }),
    ...(plan.toolTimeoutMs !== undefined && { tool_timeout_ms: plan.toolTimeoutMs }),
    ...(plan.json !== undefined && { response_format: { type: "json_schema", schema } }),
    ...plan.budget
  }
})

interface Parts {
  readonly world: World
  readonly cluster: Cluster
  readonly database: Database
}

/** One caller with one question: it reads the stream to its end, comes back when it breaks, and does what the scenario says. */
export class Caller {
  readonly #parts: Parts
  readonly #plan: ScenarioPlan
  readonly #name: string
  readonly #progress: Progress = { plan: undefined, seen: 0, isDone: false }
  #isAway = false
  /** The last connection, and the last one that was answered. */
  #reading: Reading | undefined
  #answered: Reading | undefined

  constructor(parts: Parts, plan: ScenarioPlan, name = plan.name) {
    this.#parts = parts
    this.#plan = plan
    this.#name = name
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
    const { cluster, world } = this.#parts
    return Effect.gen({ self: this }, function* () {
      for (let tries = 0; tries < 200 && !this.#progress.isDone && !this.#isAway; tries++) {
        const replica = yield* cluster.awaitUp(place + tries)
        if (this.#isAway) return
        const ending = yield* this.#connect(replica)
        if (ending === "done" || ending === "left") return
        if (typeof ending === "object") this.#progress.plan ??= ending.plan
        // Without a key, nobody knows whether the plan is stored: to ask again may start it twice.
        const mayAsk = this.#progress.plan !== undefined || this.#plan.hasKey
        if (!mayAsk || (typeof ending === "object" && !ending.isPassing)) {
          world.tell("caller", this.#plan.name, `gives up: ${typeof ending === "object" ? ending.code : ending}`)
          return
        }
        yield* Effect.sleep(world.process.random.int(50, 1_000))
      }
    })
  }

  /** One connection: it asks, or reads the plan that it knows. */
  #connect(replica: Replica): Effect.Effect<Ending> {
    const { world } = this.#parts
    const { hasKey, name, readMs } = this.#plan
    const { client } = replica
    if (client === undefined) return Effect.succeed("broken")
    const progress = this.#progress
    const { plan, seen: after } = progress
    world.tell("caller", name, plan === undefined ? `asks ${replica.name}` : `reads at ${replica.name} behind ${after}`)
    const request = plan === undefined ? this.#requested("ask", replica) : undefined
    const reading = new Reading(world, { name: this.#name, readMs, progress }, replica, () => {
      this.#answered = reading
      if (request !== undefined) request.ended = world.moment()
    })
    this.#reading = reading
    const open = (audience: Audience) =>
      plan === undefined
        ? client.start({ body: questionOf(this.#plan), key: hasKey ? `key-${name}` : undefined }, audience)
        : client.read(plan, after, audience)
    return Effect.map(reading.follow(open), (ending) => {
      const how = typeof ending === "object" ? "closed" : ending
      const isOver = how !== "broken" || replica.process.isAlive
      if (request !== undefined && request.ended === undefined && isOver) {
        request.ended = world.moment()
        request.hasLeft = how === "left"
      }
      world.tell("caller", name, `${how === "done" ? "has seen the end" : how} at ${replica.name}`)
      return ending
    })
  }

  #requested(what: ObservedRequest["what"], replica: Replica): Open<ObservedRequest> {
    const { world } = this.#parts
    const request = { what, plan: this.#plan.name, replica: replica.name, began: world.moment(), ended: undefined }
    world.requests.push(request)
    return request
  }

  #act(act: CallerAct): Effect.Effect<void> {
    return Effect.gen({ self: this }, function* () {
      if (this.#progress.isDone && !outlasting.has(act._tag)) {
        return
      }
      this.#parts.world.tell("caller", this.#plan.name, act._tag)
      switch (act._tag) {
        case "Leave":
          this.#isAway = true
          this.#leave()
          return
        case "ComeBack": {
          if (act.from === "last" && this.#progress.isDone) return
          if (act.from === "start") this.#progress.seen = 0
          this.#progress.isDone = false
          this.#leave()
          this.#isAway = false
          if (this.#progress.plan === undefined && !this.#plan.hasKey) return
          return yield* this.#follow(act.replica)
        }
        case "Cancel":
          return yield* this.#tell("cancel", act.replica, (client, id) => client.cancel(id))
        case "Decide": {
          const drawn = act.approves ? "approve" : "reject"
          return yield* this.#tell("decide", act.replica, (client, id) =>
            client.decide(id, (asked) => (asked.why === "maybe_done" ? this.#lookedUp(id, asked) : drawn))
          )
        }
        case "Say":
          return yield* this.#say(act)
        case "Give":
          return yield* this.#giveAll(act)
        case "Upload":
          return yield* upload(this.#parts, this.#plan.name, act, (replica) => this.#requested("upload", replica))
        case "AskAgain": {
          if (!this.#plan.hasKey) return
          const { replica, staysMs } = act
          const acts = staysMs === undefined ? [] : [{ _tag: "Leave" as const, at: staysMs }]
          const plan = { ...this.#plan, acts, at: 0, replica }
          const again = new Caller(this.#parts, plan, `${plan.name} again`)
          return yield* again.run
        }
      }
    })
  }

  /** Who is asked whether something was done looks at the bank. */
  #lookedUp(plan: PlanId, { input, tool }: Asked): Decision["decision"] {
    const { database, world } = this.#parts
    const payer = database.created.get(plan)
    const order = Bank.orderOf(input)
    if (payer === undefined || order === undefined) return "reject"
    const effect = Bank.effectIdOf(tool, order, payer)
    const payerOf = (name: string) => database.createdAs(name)
    const paid = [...world.calls, ...world.paid].filter((call) => Bank.isPaid(call))
    const isDone = paid.some((call) => Bank.effectIdOfCall(call, payerOf) === effect)
    world.lookUps.set(effect, world.moment().order)
    world.tell("caller", this.#plan.name, `looks at the bank: ${order} is ${isDone ? "paid" : "not paid"}`)
    return isDone ? "reject" : "approve"
  }

  /** Says it once, however often that takes. */
  #say({
    else: otherwise,
    number,
    replica: place,
    when
  }: Extract<CallerAct, { readonly _tag: "Say" }>): Effect.Effect<void> {
    const { world } = this.#parts
    return Effect.gen({ self: this }, function* () {
      const { plan } = this.#progress
      if (plan === undefined) return
      const text = saidText(this.#plan.name, number)
      const key = `say-${this.#plan.name}-${number}`
      const said: Open<ObservedSaid> = {
        ...world.moment(),
        plan_id: plan,
        text,
        when,
        else: otherwise,
        answer: "unknown",
        taker: undefined
      }
      world.said.push(said)
      yield* this.#untilAnswered("say", place, said, (client) =>
        Effect.map(client.say(plan, { text, when, else: otherwise }, key), (taker) => void (said.taker = taker))
      )
    })
  }

  /** Makes what the call pays, unless that was done, and says what the bank has made of it. Undefined: nobody may pay, or nobody tells. */
  #pay(plan: PlanId, act: Give, { input, task_id, tool }: Waiting, asked: number): "done" | "refused" | undefined {
    const { database, world } = this.#parts
    const [order, payer] = [Bank.orderOf(input), database.created.get(plan)]
    if (order === undefined || tool === null || payer === undefined) return "done"
    const known = world.paid.find((paid) => paid.task_id === task_id)
    if (known !== undefined) return known.payment.isRefused ? "refused" : "done"
    // Somebody was told meanwhile that it was not done: this call may be over.
    if ((world.lookUps.get(Bank.effectIdOf(tool, order, payer)) ?? 0) > asked) return undefined
    const payment = { order, key: undefined, isRefused: act.becomes === "refused" }
    world.paid.push({ key: task_id, plan: payer.name, task_id, tool, began: world.moment(), payment })
    world.tell("caller", this.#plan.name, `pays ${order}${payment.isRefused ? ", which the bank refuses" : ""}`)
    if (act.becomes === "lost") return undefined
    return payment.isRefused ? "refused" : "done"
  }

  /** Gives each call that waits for a result or an answer of this caller one of its own. */
  #giveAll(act: Give): Effect.Effect<void> {
    const { cluster, world } = this.#parts
    const { number, replica: place } = act
    return Effect.gen({ self: this }, function* () {
      const { plan } = this.#progress
      const { client } = yield* cluster.awaitUp(place)
      if (plan === undefined || client === undefined) return
      const { order } = world.moment()
      const waiting = yield* Effect.orElseSucceed(client.waiting(plan), () => [])
      yield* Effect.forEach(
        waiting,
        (wait) => {
          const paid = this.#pay(plan, act, wait, order)
          if (paid === undefined) return Effect.void
          const { task_id, type } = wait
          const gift: Gift = { task_id, type, content: `${task_id} is ${number}`, isError: paid === "refused" }
          const given: Open<ObservedGiven> = {
            ...world.moment(),
            plan_id: plan,
            ...gift,
            answer: "unknown",
            accepted: undefined
          }
          world.given.push(given)
          world.tell("caller", this.#plan.name, `gives ${number}`)
          return this.#untilAnswered("give", place, given, (client) =>
            client.give(plan, gift, `give-${task_id}-${number}`)
          )
        },
        { concurrency: "unbounded", discard: true }
      )
    })
  }

  /** Asks one replica after the other until one has answered. */
  #untilAnswered(
    what: "say" | "give",
    place: number,
    asked: Open<Pick<ObservedSaid, "answer">>,
    ask: (client: ReplicaClient["Service"]) => ReturnType<ReplicaClient["Service"]["give"]>
  ): Effect.Effect<void> {
    const { cluster, world } = this.#parts
    return Effect.gen({ self: this }, function* () {
      for (let tries = 0; tries < 8 && asked.answer === "unknown"; tries++) {
        const replica = yield* cluster.awaitUp(place + tries)
        const { client } = replica
        if (client === undefined) continue
        const request = this.#requested(what, replica)
        yield* Effect.match(ask(client), {
          onFailure: (error) => {
            request.isRefused = true
            if (error._tag === "Refused" && !error.isPassing) asked.answer = "refused"
          },
          onSuccess: () => void (asked.answer = "accepted")
        })
        if (replica.process.isAlive) request.ended = world.moment()
        if (asked.answer === "unknown") yield* Effect.sleep(world.process.random.int(50, 1_000))
      }
    })
  }

  #leave(): void {
    this.#reading?.leave()
    this.#answered?.leave()
  }

  /** A request about the plan, if the caller knows it. */
  #tell(
    what: "cancel" | "decide",
    place: number,
    ask: (client: ReplicaClient["Service"], plan: PlanId) => ReturnType<ReplicaClient["Service"]["cancel"]>
  ): Effect.Effect<void> {
    return Effect.gen({ self: this }, function* () {
      const { plan } = this.#progress
      const replica = yield* this.#parts.cluster.awaitUp(place)
      const { client } = replica
      if (plan === undefined || client === undefined) return
      const request = this.#requested(what, replica)
      yield* Effect.match(ask(client, plan), {
        // Behind a connection that has broken nobody knows whether it is done.
        onFailure: () => void (request.isRefused = true),
        onSuccess: () => {}
      })
      if (replica.process.isAlive) request.ended = this.#parts.world.moment()
    })
  }
}
