import { Clock, Effect, Scope } from "effect"
import { start } from "./GatewayProcess.ts"

type Gateway = Effect.Success<ReturnType<typeof start>>

/** Gateways on one database that are killed and come back, each at another address every time. */
export const make = Effect.fnUntraced(function* (size: number, settings: Readonly<Record<string, string>>) {
  const scope = yield* Effect.scope
  const logs: Array<ReadonlyArray<string>> = []
  const startOne = start(settings).pipe(
    Scope.provide(scope),
    Effect.tap(({ lines }) => Effect.sync(() => logs.push(lines)))
  )
  // The first one makes the tables.
  const first = yield* startOne
  const others = Array.from({ length: size - 1 }, () => startOne)
  const slots: Array<Gateway | undefined> = [first, ...(yield* Effect.all(others, { concurrency: "unbounded" }))]
  let turn = 0
  /** When one of them was alone or came back as the only one: from then on what was left has to be settled. */
  let aliveSince = 0

  const killAndRestart = Effect.fnUntraced(function* (index: number) {
    const gateway = slots[index]
    if (gateway === undefined) return
    slots[index] = undefined
    yield* gateway.kill("SIGKILL")
    aliveSince = yield* Clock.currentTimeMillis
    const wasAlone = slots.every((other) => other === undefined)
    slots[index] = yield* startOne
    if (wasAlone) aliveSince = yield* Clock.currentTimeMillis
  })

  /** The next one that lives, as soon as there is one. */
  const living: Effect.Effect<string> = Effect.suspend(() => {
    const alive = slots.filter((gateway) => gateway !== undefined)
    const next = alive[turn++ % Math.max(alive.length, 1)]
    return next === undefined ? Effect.delay(living, "20 millis") : Effect.succeed(next.url)
  })

  return {
    living,
    killAndRestart,
    aliveSince: Effect.sync(() => aliveSince),
    /** Where it listens, if it lives. */
    urlOf: (index: number) => slots[index]?.url,
    /** What all of them, the dead ones too, have logged of a plan. */
    linesOf: (planId: string) => logs.flatMap((lines) => lines.filter((line) => line.includes(planId)))
  }
})
