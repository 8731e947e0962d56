import { Effect } from "effect"
import type { Cluster } from "./Cluster.ts"
import type { Replica } from "./Replica.ts"
import type { Fault } from "./Scenario.ts"
import type { Wires } from "./Wires.ts"
import type { OpenSpan, World } from "./World.ts"

/** An answer of the store that takes longer than this counts as no connection. */
const slowMs = 200

interface Theatre {
  readonly world: World
  readonly wires: Wires
  readonly cluster: Cluster
}

/** Something that lasts: `begin` gives what ends it. */
const lasting = ({ world }: Theatre, ms: number, begin: () => () => void): Effect.Effect<void> =>
  Effect.suspend(() => {
    const end = begin()
    return Effect.map(Effect.sleep(ms), end)
  }).pipe(Effect.ensuring(Effect.sync(() => world.tell("world", "", "it is over"))))

const both =
  (...ends: ReadonlyArray<() => void>) =>
  () => {
    for (const end of ends) end()
  }

const cutAll = (world: World, replicas: ReadonlyArray<Replica>, spans: ReadonlyArray<Array<OpenSpan>>) =>
  both(...spans.map((open) => world.span(open)), ...replicas.map(({ link }) => link.cut()))

const restart = (theatre: Theatre, place: number, backMs: number | undefined): Effect.Effect<void> =>
  backMs === undefined
    ? Effect.void
    : Effect.map(Effect.sleep(backMs), () => {
        if (theatre.cluster.at(place)?.process.isAlive === false) theatre.cluster.start(place)
      })

const strike = (theatre: Theatre, fault: Fault): Effect.Effect<void> => {
  const { cluster, wires, world } = theatre
  const replica = "replica" in fault ? cluster.at(fault.replica) : undefined
  const place = "replica" in fault ? fault.replica % cluster.size : 0
  switch (fault._tag) {
    case "Provider":
    case "Peer":
      return Effect.void
    case "StoreAway":
      return lasting(theatre, fault.ms, () => cutAll(world, cluster.all, [world.storeAway]))
    case "NetworkSlow":
      return lasting(theatre, fault.ms, () => {
        wires.slowMs += fault.delayMs
        return () => void (wires.slowMs -= fault.delayMs)
      })
  }
  if (replica === undefined || !replica.process.isAlive) return Effect.void
  const { link, observed, process } = replica
  switch (fault._tag) {
    case "Kill":
      process.killBehind(fault.tasks)
      return Effect.callback<void>((resume) => {
        const forget = process.onKill(() => world.process.post(() => resume(Effect.void)))
        return Effect.sync(forget)
      }).pipe(Effect.andThen(restart(theatre, place, fault.backMs)))
    case "Drain":
      return Effect.andThen(replica.drain(), restart(theatre, place, fault.backMs))
    case "Pause":
      return lasting(theatre, fault.ms, () => {
        process.pause()
        return both(world.span(observed.pauses), () => process.resume())
      })
    case "ClockStep":
      return Effect.sync(() => {
        process.stepClock(fault.byMs)
        observed.skewMs = Math.max(observed.skewMs, Math.abs(fault.byMs))
      })
    case "StoreSlow":
      return lasting(theatre, fault.ms, () => {
        link.slowMs += fault.delayMs
        const end = fault.delayMs > slowMs ? world.span(observed.cutOff) : () => {}
        return both(end, () => void (link.slowMs -= fault.delayMs))
      })
    case "AnswerLost":
      return Effect.sync(() => void link.losses.push({ isApplied: fault.isApplied }))
    case "Partition":
      return lasting(theatre, fault.ms, () => cutAll(world, [replica], [observed.cutOff]))
    case "Notices":
      return lasting(theatre, fault.ms, () => {
        link.notices = fault.become
        const end = fault.become === "twice" ? () => {} : world.span(observed.deaf)
        return both(end, () => void (link.notices = "heard"))
      })
    case "NetworkReset":
      return Effect.sync(() => wires.resetAll(process))
    case "HalfOpen":
      return Effect.sync(() => wires.silenceAll(process))
  }
}

const { stringify } = JSON

/** Lets everything happen that the scenario has, each at its time, and ends when the last one is over. */
export const run = (theatre: Theatre, faults: ReadonlyArray<Fault>): Effect.Effect<void> =>
  Effect.forEach(
    faults,
    (fault) =>
      "at" in fault
        ? Effect.andThen(
            Effect.sleep(fault.at),
            Effect.suspend(() => {
              const { _tag, at: _, ...how } = fault
              theatre.world.tell("world", "", `${_tag} ${stringify(how)}`)
              return strike(theatre, fault)
            })
          )
        : Effect.void,
    { concurrency: "unbounded", discard: true }
  )
