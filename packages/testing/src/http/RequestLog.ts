import { Cause, Effect, Exit, Option } from "effect"
import type { ExchangeLog, Recorded } from "../exchange/ExchangeLog.ts"
import type { Fault, HostRequest } from "./Host.ts"

/** How an exchange ended: the whole answer was written, the client closed the connection first, or the host broke it. */
export type Ending = "answered" | "closed" | Fault["kind"]

export type RecordedRequest = Recorded<HostRequest, Ending>

/** The requests of a host. A request is recorded when it is complete. */
export type RequestLog = ExchangeLog<HostRequest, Ending>

/** The fault in a cause, if the host broke the connection by itself. */
export const faultOf = (cause: Cause.Cause<Fault>): Fault | undefined =>
  Option.getOrUndefined(Cause.findErrorOption(cause))

const endingOf = (exit: Exit.Exit<unknown, Fault>): Ending =>
  Exit.isSuccess(exit) ? "answered" : (faultOf(exit.cause)?.kind ?? "closed")

/** Runs an exchange and records it. An interruption is a client that disconnected. */
export const record = <A>(log: RequestLog, request: HostRequest, exchange: Effect.Effect<A, Fault>) =>
  Effect.acquireUseRelease(
    log.begin(request),
    () => exchange,
    (end, exit) => end(endingOf(exit))
  )
