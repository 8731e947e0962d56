import { Deferred, Effect, FiberSet, Option } from "effect"
import cluster, { type Worker as Process } from "node:cluster"
import * as PrometheusText from "../telemetry/PrometheusText.ts"
import type { Death, Worker } from "./Supervisor.ts"
import { type Question, read, type WorkerMessage } from "./WorkerMessage.ts"

/** A worker that does not answer within this time is left out. */
const answerTimeout = "2 seconds"

/**
 * Processes that share the ports on which they listen: this one accepts the connections, and gives them to one after the other.
 * They run what this process runs, with the same arguments. When this process ends in whatever way, they end, too.
 */
export const make = Effect.gen(function* () {
  const fork = yield* FiberSet.makeRuntime()
  const serving = new Map<Process, string>()
  const open = new Map<number, Deferred.Deferred<string>>()
  let last = 0

  const send = (process: Process, message: WorkerMessage) =>
    Effect.sync(() => {
      if (process.isConnected()) process.send(message)
    })

  const ask = (process: Process, question: Question) =>
    Effect.suspend(() => {
      const id = ++last
      const answer = Deferred.makeUnsafe<string>()
      open.set(id, answer)
      return send(process, { _tag: "Question", id, question }).pipe(
        Effect.andThen(Deferred.await(answer)),
        Effect.timeoutOption(answerTimeout),
        Effect.ensuring(Effect.sync(() => open.delete(id)))
      )
    })

  const answerAll = Effect.fnUntraced(function* (process: Process, id: number, question: Question) {
    const texts = yield* Effect.forEach(
      serving,
      ([worker, place]) =>
        Effect.map(
          ask(worker, question),
          Option.map((text) => [place, text] as const)
        ),
      { concurrency: "unbounded" }
    )
    const own = question === "metrics" ? [["supervisor", yield* PrometheusText.text] as const] : []
    yield* send(process, { _tag: "Answers", id, texts: [...texts.flatMap(Option.toArray), ...own] })
  })

  const listen = (process: Process, message: unknown) => {
    const known = read(message)
    if (known?._tag === "Ask") fork(answerAll(process, known.id, known.question))
    else if (known?._tag === "Answer") {
      const answer = open.get(known.id)
      if (answer !== undefined) Deferred.doneUnsafe(answer, Effect.succeed(known.text))
    }
  }

  /** Starts the worker of a place. */
  return (place: number): Effect.Effect<Worker> =>
    Effect.sync(() => {
      const process = cluster.fork()
      const listening = Deferred.makeUnsafe<void>()
      const ended = Deferred.makeUnsafe<Death>()
      process.on("message", (message) => listen(process, message))
      process.once("listening", () => {
        serving.set(process, String(place))
        Deferred.doneUnsafe(listening, Effect.void)
      })
      process.once("exit", (code, signal) => {
        serving.delete(process)
        Deferred.doneUnsafe(ended, Effect.succeed({ code, signal }))
      })
      const signal = (name: "SIGTERM" | "SIGKILL") => Effect.sync(() => void process.process.kill(name))
      return {
        listening: Deferred.await(listening),
        ended: Deferred.await(ended),
        stop: signal("SIGTERM"),
        leave: Effect.andThen(
          Effect.sync(() => serving.delete(process)),
          send(process, { _tag: "Leave" })
        ),
        kill: signal("SIGKILL")
      }
    })
})
