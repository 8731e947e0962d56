import type { Act, Part } from "@bowline/testing/peer/Act"
import { Clock, Deferred, Duration, Effect } from "effect"
import type { Received, ServerScript } from "./Server.ts"

/** Where acts are performed: it tells a server's library of them in its own words. */
export interface Stage {
  readonly begin: () => void
  readonly become: (state: string, parts: ReadonlyArray<Part>, isFinal: boolean) => void
  readonly produce: (artifactId: string, parts: ReadonlyArray<Part>, append: boolean) => void
  readonly reply: (parts: ReadonlyArray<Part>) => void
}

const finalStates = ["completed", "failed", "canceled", "rejected", "input-required"]

const perform = Effect.fnUntraced(function* (acts: ReadonlyArray<Act>, stage: Stage) {
  const [first] = acts
  if (first?._tag === "Reply") return stage.reply(first.parts)
  stage.begin()
  let state = "submitted"
  let artifacts = 0
  for (const act of acts) {
    switch (act._tag) {
      case "Pass":
        if (act.state !== undefined && act.state !== state) stage.become(act.state, [], false)
        state = act.state ?? state
        yield* Duration.isFinite(act.duration) ? Effect.sleep(act.duration) : Effect.never
        break
      case "Become":
        state = act.state
        stage.become(state, act.parts, finalStates.includes(state))
        break
      case "Produce":
        if (!act.append) artifacts += 1
        stage.produce(`artifact-${artifacts}`, act.parts, act.append)
        break
      case "Reply":
        break
    }
  }
})

/** The agent behind a server that a library serves: it performs the acts of a script, and stops when it is told to. */
export class Performer {
  readonly #script: ServerScript
  readonly #running = new Map<string, AbortController>()
  readonly #cancelled = Deferred.makeUnsafe<string>()
  readonly cancelled = Deferred.await(this.#cancelled)

  constructor(script: ServerScript) {
    this.#script = script
  }

  /** Whether it came to the end of its acts. */
  async play(taskId: string, received: Received, stage: Stage): Promise<boolean> {
    const controller = new AbortController()
    this.#running.set(taskId, controller)
    const { acts, clock } = this.#script
    const performing = Effect.provideService(perform(acts(received), stage), Clock.Clock, clock)
    const exit = await Effect.runPromiseExit(performing, { signal: controller.signal })
    return exit._tag === "Success"
  }

  stop(taskId: string): void {
    Deferred.doneUnsafe(this.#cancelled, Effect.succeed(taskId))
    this.#running.get(taskId)?.abort()
  }
}
