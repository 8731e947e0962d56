import { Deferred, Effect, FiberSet, type Scope } from "effect"
import cluster from "node:cluster"
import { type Question, read, type WorkerMessage } from "./WorkerMessage.ts"

/** How long the supervisor may take for the answers of all. Then a worker answers for itself alone. */
const patience = "3 seconds"

/** What this process answers when it is asked. */
type Own = { readonly [question in Question]: Effect.Effect<string> }

/** What they answer, by their places. */
type Texts = ReadonlyArray<readonly [place: string, text: string]>

/** What this process learns from all of them. */
interface Siblings {
  /** What all have measured, with the label `worker`. */
  readonly metrics: Effect.Effect<string>
  readonly isAnyReady: Effect.Effect<boolean>
}

/**
 * The processes of `bowline serve --workers`, as one of them sees them: by way of the supervisor it asks all of them, itself included, and
 * answers the others until the scope closes. A gateway of one process answers for itself.
 */
export const join = Effect.fnUntraced(function* (own: Own): Effect.fn.Return<Siblings, never, Scope.Scope> {
  const isTrue = (text: string): boolean => text === "true"
  if (!cluster.isWorker) return { metrics: own.metrics, isAnyReady: Effect.map(own.isReady, isTrue) }

  const fork = yield* FiberSet.makeRuntime()
  const open = new Map<number, Deferred.Deferred<Texts>>()
  // The channel closes only when the supervisor is gone. Node.js then ends this process, too.
  const send = (message: WorkerMessage) => Effect.sync(() => void process.send?.(message))
  const listen = (message: unknown) => {
    const known = read(message)
    if (known?._tag === "Question") {
      const { id, question } = known
      fork(Effect.flatMap(own[question], (text) => send({ _tag: "Answer", id, text })))
    } else if (known?._tag === "Answers") {
      const waiting = open.get(known.id)
      if (waiting !== undefined) Deferred.doneUnsafe(waiting, Effect.succeed(known.texts))
    }
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("message", listen)),
    () => Effect.sync(() => process.off("message", listen))
  )

  let last = 0
  const ask = (question: Question): Effect.Effect<Texts> =>
    Effect.suspend(() => {
      const id = ++last
      const waiting = Deferred.makeUnsafe<Texts>()
      open.set(id, waiting)
      return send({ _tag: "Ask", id, question }).pipe(
        Effect.andThen(Deferred.await(waiting)),
        Effect.timeoutOrElse({
          duration: patience,
          orElse: () => Effect.map(own[question], (text): Texts => [["unknown", text]])
        }),
        Effect.ensuring(Effect.sync(() => open.delete(id)))
      )
    })
  return {
    metrics: Effect.map(ask("metrics"), joinMetrics),
    isAnyReady: Effect.map(ask("isReady"), (answers) => answers.some(([, text]) => isTrue(text)))
  }
})

/** Joins texts of metrics: each series gets the label `worker`, and each metric stays in one piece, as Prometheus wants it. */
export const joinMetrics = (texts: Texts): string => {
  const make = () => ({ head: new Set<string>(), series: new Array<string>() })
  const metrics = new Map<string, ReturnType<typeof make>>()
  for (const [place, text] of texts) {
    const label = `worker="${place}"`
    let metric = make()
    for (const line of text.split("\n")) {
      const [, name] = /^# (?:HELP|TYPE) (\S+)/.exec(line) ?? []
      if (name !== undefined) {
        metric = metrics.get(name) ?? make()
        metrics.set(name, metric)
        metric.head.add(line)
      } else if (line !== "") {
        metric.series.push(
          line.replace(/^[\w:]+(\{?)/, (start, brace) => (brace === "" ? `${start}{${label}}` : `${start}${label},`))
        )
      }
    }
  }
  return Array.from(metrics.values(), ({ head, series }) => [...head, ...series, ""].join("\n")).join("")
}
