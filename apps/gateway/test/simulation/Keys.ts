import { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { Options } from "@bowline/testing/simulation/Simulation"
import { ReplicaClient, Refused, type Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { Duration, Effect } from "effect"
import { textOf } from "./Answers.ts"
import * as CallerRates from "./CallerRates.ts"
import * as Crossings from "./Crossings.ts"
import type { Wire } from "./MemoryServer.ts"

type Rule = NonNullable<Options["rules"]>[string]
type Client = ReplicaClient["Service"]

const callers = [
  { name: CallerName.make("ann"), key: "key-of-ann" },
  { name: CallerName.make("bob"), key: "key-of-bob" }
] as const
const [, bob] = callers
/** Who asks for the plans of even numbers. */
export const [ann] = callers

/** As the variable has them. */
export const asVariable = callers.map(({ key, name }) => `${name}=${key}`).join(",")

/** What a caller may ask who is not limited. */
const usualRate: CallerRates.Rate = [600, Duration.minutes(1)]

/**
 * Whether callers have keys, and their rate: one seed of three, and half of them a tight one. What all plans may use up on a day is the day of one caller: there
 * is no other one then.
 */
export const draw = ({ world }: Site, isForced = false): CallerRates.Rate | undefined => {
  const random = world.process.random.of("keys")
  const isDrawn = random.chance(33)
  const isTight = random.chance(50)
  const tight = [random.int(5, 15), Duration.seconds(random.int(2, 8))] as const
  if (isForced) return tight
  return isDrawn && world.day === undefined ? (isTight ? tight : usualRate) : undefined
}

/** Who asks for a plan, by its number: two callers, in turn. */
const callerOf = (name: string) => (Number(/\d+/.exec(name)?.[0] ?? 0) % 2 === 0 ? ann : bob)

const nameIn = (body: unknown): string => /FACT-(\w+)/.exec(JSON.stringify(body))?.[1] ?? ""

/** What the callers with keys have seen. */
export const makeHeard = () => ({
  requests: new Array<CallerRates.KeyedRequest>(),
  crossings: new Array<Crossings.Crossing>(),
  /** Whose plan each is. */
  owners: new Map<PlanId, (typeof callers)[number]>(),
  /** The plans for which a key of another caller was taken for theirs. */
  conflicts: new Array<string>()
})
export type Heard = ReturnType<typeof makeHeard>

/** Two callers with keys of their own, who name their sessions alike and use the same idempotency keys. Some look for plans of the other one. */
export const client = (
  site: Site,
  wire: Wire["Service"],
  rate: CallerRates.Rate,
  { conflicts, crossings, owners, requests }: Heard,
  clientOf: (wire: Wire["Service"]) => Client
): Client => {
  const { process, world } = site
  const open = ({ key, name }: (typeof callers)[number]) => {
    const keyed = CallerRates.onWire(site, wire, requests, { name, key, rate })
    return { name, wire: keyed, client: clientOf(keyed) }
  }
  const [ofAnn, ofBob] = [open(ann), open(bob)]
  const of = (caller: (typeof callers)[number]) => (caller === ann ? ofAnn : ofBob)
  const ownerOf = (plan: PlanId) => of(owners.get(plan) ?? ann).client

  /** Looks for the plan of somebody else in a few ways, one after the other. */
  const cross = Effect.fnUntraced(function* (plan: PlanId) {
    const { random } = world.process
    const { name, wire: keyed } = owners.get(plan) === ann ? of(bob) : of(ann)
    for (let count = random.int(1, 4); count > 0; count--) {
      yield* Effect.sleep(random.int(0, 4_000))
      const who = random.pick<Crossings.Crossing["who"]>(["other", "other", "other", "nobody", "stranger"])
      const request = random.pick(who === "other" ? Crossings.requestsOf(plan) : Crossings.allOf(plan))
      const headers = { ...request.headers, ...(who === "stranger" && { authorization: "Bearer of-no-one" }) }
      world.tell("caller", "", `${who === "other" ? name : who} asks ${process.name}: ${request.what}`)
      const answer = yield* (who === "other" ? keyed : wire).ask({ ...request, headers }, request.body)
      const text = yield* textOf(answer)
      const challenge = answer.headers["www-authenticate"]
      crossings.push({ who, caller: name, request, status: answer.statusCode ?? 0, challenge, text })
    }
  }, Effect.scoped)

  return {
    start: ({ body, key }, { begin, take }) => {
      const name = nameIn(body)
      const caller = callerOf(name)
      // Two plans, of different callers, have the same key.
      const shared = key?.replace(/\d+$/, (number) => String(Math.floor(Number(number) / 2)))
      const own = (plan: PlanId) => void owners.set(plan, caller)
      const began = (plan: PlanId) =>
        Effect.gen(function* () {
          own(plan)
          // It ends with its answer, or with the replica.
          if (world.process.random.chance(50)) yield* Effect.forkDetach(Effect.ignore(cross(plan)))
          yield* begin(plan)
        })
      return of(caller)
        .client.start({ body, key: shared }, { begin: began, take })
        .pipe(
          Effect.tapError((error) =>
            Effect.sync(() => {
              if (!(error instanceof Refused)) return
              if (error.plan !== undefined) own(error.plan)
              if (error.code.includes("idempotency")) conflicts.push(name)
            })
          )
        )
    },
    upload: (content) => of(ann).client.upload(content),
    read: (plan, ...given) => ownerOf(plan).read(plan, ...given),
    cancel: (plan) => ownerOf(plan).cancel(plan),
    decide: (plan, decide) => ownerOf(plan).decide(plan, decide),
    say: (plan, text, key) => ownerOf(plan).say(plan, text, key),
    waiting: (plan) => ownerOf(plan).waiting(plan),
    give: (plan, result, key) => ownerOf(plan).give(plan, result, key)
  }
}

/** Nobody gets a plan, or is told of one, without the key of its caller. */
export const rule =
  ({ conflicts, crossings, owners }: Heard): Rule =>
  (observed) => {
    const isKeyed = owners.size > 0
    // The next run begins with none.
    owners.clear()
    return [
      ...conflicts.splice(0).map((name) => `the idempotency key of ${name} is taken for the one of another caller`),
      ...crossings.splice(0).flatMap((crossing) => {
        const told = observed.plans.filter(
          ({ name }) => callerOf(name).name !== crossing.caller && new RegExp(`FACT-${name}\\b`).test(crossing.text)
        )
        return Crossings.wrongIn(
          crossing,
          Array.from(told, ({ name }) => name)
        )
      }),
      ...(isKeyed ? observed.plans : []).flatMap(({ name, plan }) =>
        name !== Crossings.ofNobody && plan.caller === callerOf(name).name
          ? []
          : [`plan ${name} is stored as one of ${plan.caller}`]
      )
    ]
  }
