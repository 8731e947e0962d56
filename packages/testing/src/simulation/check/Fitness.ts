import { Duration } from "effect"
import type { Observed, ObservedReplica, Span } from "../scenario/Observed.ts"

/** Which faults of a replica count: only those that freeze it, or also those that keep it from the store. */
type Hindrance = "frozen" | "any"

const hindrances = ({ cutOff, pauses }: ObservedReplica, { storeAway }: Observed, which: Hindrance) =>
  which === "frozen" ? pauses : [...pauses, ...cutOff, ...storeAway]

const overlaps = (span: Span, from: number, to: number): boolean => span.from < to && from < span.to

/** The first time from `from` on at which the replica has been fit for `ms` on end; infinite if it never is. */
const fitBy = (
  replica: ObservedReplica,
  observed: Observed,
  from: number,
  ms: number,
  which: Hindrance = "any"
): number => {
  const spans = hindrances(replica, observed, which)
  const since = Math.max(from, replica.started.at)
  const starts = [since, ...spans.map(({ to }) => to)].filter((start) => start >= since)
  const fit = starts.filter((start) => !spans.some((span) => overlaps(span, start, start + ms)))
  const by = Math.min(...fit) + ms
  return by <= endOf(replica, observed) ? by : Infinity
}

/** A process that shuts down takes over nothing. */
const endOf = ({ ended, replica }: ObservedReplica, { requests }: Observed): number => {
  const drain = requests.find((request) => request.what === "drain" && request.replica === replica)
  return Math.min(ended?.at ?? Infinity, drain?.began.at ?? Infinity)
}

/** The first time from `from` on at which some replica has been fit for `ms` on end. */
export const anyFitBy = (observed: Observed, from: number, ms: number): number =>
  Math.min(...observed.replicas.map((replica) => fitBy(replica, observed, from, ms)))

/** The same for one replica. One that is dead does nothing any more: infinite. */
export const replicaFitBy = (
  observed: Observed,
  name: string,
  from: number,
  ms: number,
  which: Hindrance = "any"
): number => {
  const replica = observed.replicas.find(({ replica }) => replica === name)
  return replica === undefined ? Infinity : fitBy(replica, observed, from, ms, which)
}

/** How long the slowest way of the replica to the store took between these times, in milliseconds. */
export const wayMs = ({ replicas }: Observed, name: string, from: number, to: number): number =>
  Math.max(
    0,
    ...replicas
      .filter(({ replica }) => replica === name)
      .flatMap(({ cutOff }) => cutOff.map((span) => (overlaps(span, from, to) ? (span.wayMs ?? 0) : 0)))
  )

/** Whether something has hindered the replica between these times: it was frozen, away from the store, or gone. */
export const wasHindered = (observed: Observed, name: string, from: number, to: number): boolean =>
  observed.replicas.some(
    (replica) =>
      replica.replica === name &&
      ((replica.ended !== undefined && replica.ended.at >= from && replica.ended.at <= to) ||
        hindrances(replica, observed, "any").some((span) => overlaps(span, from, to)))
  )

/** Whether the replica was frozen for at least so many milliseconds on end at some time between these. */
export const wasFrozen = ({ replicas }: Observed, name: string, from: number, to: number, ms: number): boolean =>
  replicas.some(
    ({ pauses, replica }) =>
      replica === name && pauses.some((span) => span.to - span.from >= ms && overlaps(span, from, to))
  )

/** Whether the replica did not reach the store at some time between these. */
export const wasAway = ({ replicas, storeAway }: Observed, name: string, from: number, to: number): boolean =>
  replicas.some(
    ({ cutOff, replica }) => replica === name && [...cutOff, ...storeAway].some((span) => overlaps(span, from, to))
  )

/** For how long a fault may still show behind its end, in milliseconds: a lease runs out, and a statement that nobody answers is given up. */
export const aftermath = ({ config }: Observed): number => Duration.toMillis(config.leaseTtl) + 15_000

/** When faults began to hinder the replica between these times. */
export const hinderedAt = (observed: Observed, name: string, from: number, to: number): ReadonlyArray<number> =>
  observed.replicas.flatMap((replica) => {
    if (replica.replica !== name) return []
    const ended = replica.ended === undefined ? [] : [{ from: replica.ended.at, to: replica.ended.at }]
    return [...ended, ...hindrances(replica, observed, "any")]
      .filter((span) => span.from <= to && span.to >= from)
      .map((span) => Math.max(span.from, from))
  })

/** What a process that dies may cost: the time of a lease, and 10 s. */
export const takeOverMs = ({ config }: Observed): number => Duration.toMillis(config.leaseTtl) + 10_000
