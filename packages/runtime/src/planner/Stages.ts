import type { Stage } from "@bowline/domain/plan/Outcome"
import { Effect, Exit } from "effect"
import * as Spans from "../telemetry/Spans.ts"

/** Stages with a span of their own. Attempts and calls have theirs, which say more. */
const waits: ReadonlySet<Stage> = new Set(["queue", "backoff", "approval", "client", "compaction"])

/** What a plan waits for, one stage at a time. An abort, a time-out or a failure names the stage in which it came. */
export class Stages {
  readonly #entered: Array<Stage> = []
  readonly #known = new Set<Stage>()
  /** Called whenever a stage is entered or left. */
  onChange: () => void = () => undefined
  #failedIn: Stage | null | undefined

  /** The order of precedence while a plan waits for several things: `tool` comes first, then `approval` and `client`. */
  get current(): Stage | null {
    if (this.#entered.includes("tool")) return "tool"
    if (this.#entered.includes("approval")) return "approval"
    if (this.#entered.includes("client")) return "client"
    return this.#entered.at(-1) ?? null
  }

  /** Whether the plan has been in this stage. */
  hasBeenIn(stage: Stage): boolean {
    return this.#known.has(stage)
  }

  /** How many calls wait for somebody, or for a time. */
  get waits(): number {
    return this.#entered.filter((stage) => stage === "approval" || stage === "client").length
  }

  /** The stage that the last failure came out of, until the next stage is entered. */
  get failedIn(): Stage | null | undefined {
    return this.#failedIn
  }

  /** The plan waits in this stage in place of the other one, in which it is, for as long as the effect runs. */
  instead(of: Stage, stage: Stage): <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> {
    return (effect) =>
      Effect.suspend(() => {
        this.#leave(of)
        return Effect.onExit(this.within(stage)(effect), () => Effect.sync(() => this.#enter(of)))
      })
  }

  #enter(stage: Stage): void {
    this.#entered.push(stage)
    this.#known.add(stage)
    this.onChange()
  }

  #leave(stage: Stage): void {
    this.#entered.splice(this.#entered.lastIndexOf(stage), 1)
    this.onChange()
  }

  /** The plan waits in this stage for as long as the effect runs. */
  within(stage: Stage): <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> {
    return (effect) =>
      Effect.suspend(() => {
        this.#enter(stage)
        this.#failedIn = undefined
        return Effect.onExit(waits.has(stage) ? Spans.within(stage)(effect) : effect, (exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit)) this.#failedIn ??= this.current
            this.#leave(stage)
          })
        )
      })
  }
}
