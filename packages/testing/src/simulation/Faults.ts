import { Effect } from "effect"
import type { Cluster } from "./Cluster.ts"
import type { Replica } from "./Replica.ts"
import type { Fault } from "./Scenario.ts"
import type { Wires } from "./Wires.ts"
import type { ObservedRequest } from "./Observed.ts"
import type { Open, World } from "./World.ts"

/** An answer of the store that takes longer than this counts as no connection. */
const slowMs = 200

type OfReplica = Extract<Fault, { readonly replica: number }>

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

/** A replica that waits for an answer that was lost is no better off when the store is back. */
const cutAll = (world: World, replicas: ReadonlyArray<Replica>) =>
  both(
    ...replicas.flatMap(({ link, observed }) => {
      const end = world.span(observed.cutOff)
      return [link.cut(), () => void world.loop.after(link.waitsUntil - world.now, end)]
    })
  )

const restart = (theatre: Theatre, place: number, backMs: number | undefined): Effect.Effect<void> =>
  backMs === undefined
    ? Effect.void
    : Effect.map(Effect.sleep(backMs), () => {
        if (theatre.cluster.at(place)?.process.isAlive === false) theatre.cluster.start(place)
      })

const strikeAll = (theatre: Theatre, fault: Exclude<Fault, OfReplica>): Effect.Effect<void> => {
  const { cluster, wires, world } = theatre
  switch (fault._tag) {
    case "Provider":
    case "Peer":
    case "Mcp":
      return Effect.void
    case "Expire":
    case "Storm":
    case "Card":
    case "McpServer":
      return lasting(theatre, fault.ms, () => {
        world.standing.add(fault)
        return () => void world.standing.delete(fault)
      })
    case "StoreAway":
      return lasting(theatre, fault.ms, () => both(world.span(world.storeAway), cutAll(world, cluster.all)))
    case "NetworkSlow":
      return lasting(theatre, fault.ms, () => {
        wires.slowMs += fault.delayMs
        return () => void (wires.slowMs -= fault.delayMs)
      })
  }
}

const strikeOne = (theatre: Theatre, fault: OfReplica, replica: Replica): Effect.Effect<void> => {
  const { cluster, wires, world } = theatre
  const { link, observed, process } = replica
  const place = fault.replica % cluster.size
  switch (fault._tag) {
    case "Kill":
      process.killBehind(fault.tasks)
      return Effect.callback<void>((resume) => {
        const forget = process.onKill(() => world.process.post(() => resume(Effect.void)))
        return Effect.sync(forget)
      }).pipe(Effect.andThen(restart(theatre, place, fault.backMs)))
    case "Drain":
      return Effect.suspend(() => {
        const request: Open<ObservedRequest> = {
          what: "drain",
          plan: "",
          replica: replica.name,
          began: world.moment(),
          ended: undefined
        }
        world.requests.push(request)
        return Effect.map(replica.drain(), () => void (request.ended = world.moment()))
      }).pipe(Effect.andThen(restart(theatre, place, fault.backMs)))
    case "Pause":
      return lasting(theatre, fault.ms, () => {
        process.pause()
        return both(world.span(observed.pauses), () => process.resume())
      })
    case "ClockStep":
      return Effect.sync(() => process.stepClock(fault.byMs))
    case "StoreSlow":
      return lasting(theatre, fault.ms, () => {
        link.slowMs += fault.delayMs
        const end = 2 * link.slowMs > slowMs ? world.span(observed.cutOff) : () => {}
        // What was asked just before is answered so much later.
        const later = () => void world.loop.after(fault.delayMs, end)
        return both(later, () => void (link.slowMs -= fault.delayMs))
      })
    case "AnswerLost":
      return Effect.sync(() => {
        link.losses.push({ isApplied: fault.isApplied })
        world.lostAnswers.push({ ...world.moment(), replica: observed.replica })
      })
    case "Partition":
      return lasting(theatre, fault.ms, () => cutAll(world, [replica]))
    case "Notices":
      return lasting(theatre, fault.ms, () => {
        link.notices = fault.become
        const end = fault.become === "twice" ? () => {} : world.span(observed.deaf)
        return both(end, () => void (link.notices = "heard"))
      })
    case "NetworkReset":
      return Effect.sync(() => {
        wires.resetAll(process)
        for (const reset of Array.from(replica.connections)) reset()
      })
    case "HalfOpen":
      return Effect.sync(() => wires.silenceAll(process))
  }
}

const strike = (theatre: Theatre, fault: Fault): Effect.Effect<void> => {
  if (!("replica" in fault)) return strikeAll(theatre, fault)
  const replica = theatre.cluster.at(fault.replica)
  return replica?.process.isAlive === true ? strikeOne(theatre, fault, replica) : Effect.void
}

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
              theatre.world.tell("world", "", `${_tag} ${JSON.stringify(how)}`)
              return strike(theatre, fault)
            })
          )
        : Effect.void,
    { concurrency: "unbounded", discard: true }
  )
