import { Effect, Stream, type Duration } from "effect"
import { Fault, text, type HostResponse } from "../http/Host.ts"
import { cut, reset, stall, toStream, write, type Move } from "../http/Move.ts"

/**
 * What goes wrong with one request. `instead`: the peer does not handle it. `after`: the peer handles it and then spoils the
 * answer, so that it has acted and the client does not know.
 */
export type Trouble =
  | { readonly when: "instead"; readonly answer: HostResponse }
  | { readonly when: "after"; readonly spoil: (answer: HostResponse) => Effect.Effect<HostResponse, Fault> }

/** Another answer: a status with headers such as `Retry-After`, or a body that is not of the dialect. */
export const answers = (status: number, headers?: Readonly<Record<string, string>>, body = ""): Trouble => ({
  when: "instead",
  answer: text(status, body, headers)
})

/** The connection breaks before the head of the answer. */
export const breaks = (kind: Fault["kind"]): Trouble => ({
  when: "after",
  spoil: () => Effect.fail(new Fault({ kind }))
})

/** The head of the answer does not come. */
export const silent: Trouble = { when: "after", spoil: () => Effect.never }

/** The head of the answer comes late. */
export const late = (delay: Duration.Input): Trouble => ({
  when: "after",
  spoil: (answer) => Effect.delay(Effect.succeed(answer), delay)
})

const breaksOff = (move: Move): Trouble => ({
  when: "after",
  spoil: (answer) => Effect.succeed({ ...answer, body: toStream([write("{"), move]) })
})

/** The answer begins; then the connection is closed or reset, or nothing more comes. */
export const cutsAnswer: Trouble = breaksOff(cut)
export const resetsAnswer: Trouble = breaksOff(reset)
export const stallsAnswer: Trouble = breaksOff(stall)

const breaksBehind = (events: number, move: Move): Trouble => ({
  when: "after",
  spoil: (answer) =>
    Effect.succeed({ ...answer, body: Stream.concat(Stream.take(answer.body, events), toStream([move])) })
})

/** A stream breaks after that number of events, in one way or another. The task goes on. */
export const cutsBehind = (events: number): Trouble => breaksBehind(events, cut)
export const resetsBehind = (events: number): Trouble => breaksBehind(events, reset)
export const stallsBehind = (events: number): Trouble => breaksBehind(events, stall)
