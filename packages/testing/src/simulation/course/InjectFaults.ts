import { Effect } from "effect"
import type { Cluster } from "../replica/Cluster.ts"
import type { Replica } from "../replica/Replica.ts"
import type { Fault } from "../scenario/Scenario.ts"
import type { Wires } from "../world/Wires.ts"
import type { ObservedRequest } from "../scenario/Observed.ts"
import type { Open, World } from "../world/World.ts"

/** An answer of the store that takes longer than this counts as no connection. */
const slowMs = 200

type OfReplica = Extract<Fault, { readonly replica: number }>

interface Parts {
  readonly world: World
  readonly wires: Wires
  readonly cluster: Cluster
}

/** Something that lasts: `begin` gives what ends it. */
const lasting = ({ world }: Parts, ms: number, begin: () => () => void): Effect.Effect<void> =>
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

const restart = (parts: Parts, place: number, backMs: number | undefined): Effect.Effect<void> =>
  backMs === undefined
    ? Effect.void
    : Effect.map(Effect.sleep(backMs), () => {
        if (parts.cluster.at(place)?.process.isAlive === false) parts.cluster.start(place)
      })

const strikeAll = (parts: Parts, fault: Exclude<Fault, OfReplica>): Effect.Effect<void> => {
  const { cluster, wires, world } = parts
  switch (fault._tag) {
    case "Provider":
    case "Peer":
    case "Mcp":
      return Effect.void
    case "Expire":
    case "Storm":
    case "Card":
    case "McpServer":
      return lasting(parts, fault.ms, () => {
        world.standing.add(fault)
        return () => void world.standing.delete(fault)
      })
    case "StoreAway":
      return lasting(parts, fault.ms, () => both(world.span(world.storeAway), cutAll(world, cluster.all)))
    case "NetworkSlow":
      return lasting(parts, fault.ms, () => {
        wires.slowMs += fault.delayMs
        return () => void (wires.slowMs -= fault.delayMs)
      })
  }
}

const strikeOne = (parts: Parts, fault: OfReplica, replica: Replica): Effect.Effect<void> => {
  const { cluster, wires, world } = parts
  const { link, observed, process } = replica
  const place = fault.replica % cluster.size
  switch (fault._tag) {
    case "Kill":
      process.killAfter(fault.tasks)
      return Effect.callback<void>((resume) => {
        const forget = process.onKill(() => world.process.post(() => resume(Effect.void)))
        return Effect.sync(forget)
      }).pipe(Effect.andThen(restart(parts, place, fault.backMs)))
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
      }).pipe(Effect.andThen(restart(parts, place, fault.backMs)))
    case "Pause":
      return lasting(parts, fault.ms, () => {
        process.pause()
        return both(world.span(observed.pauses), () => process.resume())
      })
    case "ClockStep":
      return Effect.sync(() => process.stepClock(fault.byMs))
    case "StoreSlow":
      return lasting(parts, fault.ms, () => {
        link.slowMs += fault.delayMs
        const end = 2 * link.slowMs > slowMs ? world.span(observed.cutOff, link.slowMs) : () => {}
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
      return lasting(parts, fault.ms, () => cutAll(world, [replica]))
    case "Notices":
      return lasting(parts, fault.ms, () => {
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

const strike = (parts: Parts, fault: Fault): Effect.Effect<void> => {
  if (!("replica" in fault)) return strikeAll(parts, fault)
  const replica = parts.cluster.at(fault.replica)
  return replica?.process.isAlive === true ? strikeOne(parts, fault, replica) : Effect.void
}

/** Lets everything happen that the scenario has, each at its time, and ends when the last one is over. */
export const injectFaults = (parts: Parts, faults: ReadonlyArray<Fault>): Effect.Effect<void> =>
  Effect.forEach(
    faults,
    (fault) => {
      const { world } = parts
      const observed = { fault, from: 0, to: Infinity }
      if (!("at" in fault)) return Effect.sync(() => void world.faults.push(observed))
      return Effect.andThen(
        Effect.sleep(fault.at),
        Effect.suspend(() => {
          const { _tag, at: _, ...how } = fault
          world.tell("world", "", `${_tag} ${JSON.stringify(how)}`)
          world.faults.push(Object.assign(observed, { from: world.now }))
          return Effect.map(strike(parts, fault), () => void (observed.to = world.now))
        })
      )
    },
    { concurrency: "unbounded", discard: true }
  )
