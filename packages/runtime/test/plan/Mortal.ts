import { layerOnStore } from "@bowline/testing/TestKit"
import { Context, Effect, Layer, type Scope } from "effect"
import { Plans } from "../../src/plan/Plans.ts"
import { type PlanCommit, PlanStore } from "../../src/plan/PlanStore.ts"
import { LeaseStore } from "../../src/session/LeaseStore.ts"
import { SessionStore } from "../../src/session/SessionStore.ts"

type Options = Parameters<typeof layerOnStore>[0] & {
  /** Says of each commit whether the process dies of it, before or behind it. */
  readonly dies?: (commit: ReadonlyArray<PlanCommit>) => "before" | "behind" | undefined
}

/** A process on the stores that are there, which can die: from then on nothing of it reaches them any more. */
export const mortal = Effect.fnUntraced(function* ({ dies = () => undefined, ...options }: Options) {
  let isDead = false
  const kill = () => void (isDead = true)
  const alive = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => (isDead ? Effect.never : effect))

  const stores = Layer.effectContext(
    Effect.gen(function* () {
      const plans = yield* PlanStore
      const leases = yield* LeaseStore
      const sessions = yield* SessionStore
      return Context.make(PlanStore, {
        ...plans,
        isShared: true,
        isDurable: true,
        create: (...given) => alive(plans.create(...given)),
        takeOver: (...given) => alive(plans.takeOver(...given)),
        abortRequests: (...given) => alive(plans.abortRequests(...given)),
        commit: (batch, durable) =>
          Effect.suspend(() => {
            const when = isDead ? "before" : dies(batch)
            if (when !== undefined) kill()
            if (when === "before") return Effect.never
            return Effect.flatMap(plans.commit(batch, durable), (refused) => alive(Effect.succeed(refused)))
          })
      }).pipe(
        Context.add(LeaseStore, {
          acquire: (...given) => alive(leases.acquire(...given)),
          renew: (...given) => alive(leases.renew(...given)),
          release: (...given) => alive(leases.release(...given)),
          leave: (...given) => alive(leases.leave(...given))
        }),
        Context.add(SessionStore, sessions)
      )
    })
  )
  const context = yield* Layer.build(Layer.provide(Layer.fresh(layerOnStore(options)), stores))
  const plans = Context.get(context, Plans)
  return {
    kill,
    plans,
    on: <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, Plans>> =>
      Effect.provideService(effect, Plans, plans)
  }
})

export type Mortal = Effect.Success<ReturnType<typeof mortal>>
export type Needs = Scope.Scope
