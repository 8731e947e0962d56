import { Effect, Random } from "effect"

/** How a call behaves: after a time it completes, fails or is handed back, it never ends, or it completes late and cannot be interrupted. */
export interface DrawnCall {
  readonly behaviour: "completed" | "failed" | "input-required" | "never" | "stubborn"
  readonly afterMs: number
  /** A skill of a peer, with a limit that is shorter than the request's or without one, or a tool of the app. */
  readonly tool: keyof typeof limits
}

/** A step of 100 calls, and what ends its plan, if anything does. */
export interface DrawnStep {
  readonly calls: ReadonlyArray<DrawnCall>
  readonly end: "answer" | "deadline" | "cancelled" | "disconnect"
  /** When it ends, unless all calls have ended before. */
  readonly endsAt: number
}

export const requestLimit = 6_000

/** By the names of the tools. */
export const limits = { bob_hasty: 400, bob_calm: 2_000, bob_patient: requestLimit, knot: requestLimit }

const stubbornMs = 3_000

const pick = <const A>(...all: readonly [A, ...ReadonlyArray<A>]): Effect.Effect<A> => Random.choice(all)

/** No two of these come at the same time, so that it is clear which was first: limits are multiples of 4, calls are not, and ends are odd. */
const afterMs = (below: number) => Effect.map(Random.nextIntBetween(0, below / 4), (steps) => steps * 4 + 2)
const endsAt = (below: number) => Effect.map(Random.nextIntBetween(50, below / 2), (steps) => steps * 2 + 1)

const drawCall: Effect.Effect<DrawnCall> = Effect.gen(function* () {
  const tool = yield* pick("bob_hasty", "bob_calm", "bob_patient", "knot")
  // Only a peer hands a task back.
  const other = tool === "knot" ? "failed" : "input-required"
  return {
    tool,
    behaviour: yield* pick("completed", "completed", "completed", "failed", other, "never", "stubborn"),
    afterMs: yield* Effect.flatMap(pick(200, 1_000, 5_000), afterMs)
  }
})

export const draw: Effect.Effect<DrawnStep> = Effect.gen(function* () {
  return {
    calls: yield* Effect.all(Array.from({ length: 100 }, () => drawCall)),
    end: yield* pick("answer", "deadline", "cancelled", "disconnect"),
    endsAt: yield* Effect.flatMap(pick(1_000, 5_000, 20_000), endsAt)
  }
})

/** What must become of a call. Times are milliseconds since the step began; without `startedAt` it was never made. */
export interface ExpectedCall {
  readonly state: "completed" | "failed" | "input-required" | "timed-out" | "interrupted"
  readonly startedAt: number | undefined
  readonly endedAt: number | undefined
}

/** How long a call takes that nobody ends. */
export const lasts = ({ afterMs, behaviour }: DrawnCall): number => {
  if (behaviour === "never") return Infinity
  return behaviour === "stubborn" ? afterMs + stubbornMs : afterMs
}

/** How long a call takes before it ends or times out, and its state then. */
const ownEnd = (call: DrawnCall): readonly [number, ExpectedCall["state"]] => {
  const { behaviour, tool } = call
  const limit = limits[tool]
  if (behaviour === "never" || lasts(call) > limit) return [limit, "timed-out"]
  return [lasts(call), behaviour === "stubborn" ? "completed" : behaviour]
}

/** Plays the step with pencil and paper: each call takes the place that is free first. */
export const expect = ({ calls, end, endsAt }: DrawnStep, places: number): ReadonlyArray<ExpectedCall> => {
  const freeAt = Array.from({ length: places }, () => 0)
  const over = end === "answer" ? Infinity : endsAt
  return calls.map((call) => {
    const startedAt = Math.min(...freeAt)
    const [takes, state] = ownEnd(call)
    freeAt[freeAt.indexOf(startedAt)] = startedAt + takes
    if (startedAt > over) return { state: "interrupted", startedAt: undefined, endedAt: undefined }
    return startedAt + takes > over
      ? { state: "interrupted", startedAt, endedAt: over }
      : { state, startedAt, endedAt: startedAt + takes }
  })
}
