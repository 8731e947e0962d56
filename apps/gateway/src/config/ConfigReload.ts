import * as TextFile from "@bowline/runtime/unstable/prompt/TextFile"
import { Effect, Layer, Option, Queue } from "effect"
import { stat } from "node:fs/promises"
import { formatProblem } from "./setting/ConfigProblem.ts"
import type { GatewayConfig } from "./GatewayConfig.ts"

/** How the files look now. It differs once one of them was written, replaced or removed, or a symbolic link to it leads elsewhere. */
const stampOf = (files: ReadonlyArray<string>): Effect.Effect<string> =>
  Effect.map(
    Effect.forEach(files, (file) =>
      TextFile.ask(() => stat(file, { bigint: true })).pipe(
        Effect.map(TextFile.stampOf),
        Effect.catch((reason) => Effect.succeed(reason))
      )
    ),
    (stamps) => stamps.join("\n")
  )

/** Reads the configuration of a running gateway again: `reread` at once, `look` if a file has changed since, and is written no more. */
export const make = Effect.fnUntraced(function* ({
  files,
  reread: read
}: Pick<GatewayConfig["Service"], "files" | "reread">) {
  let known = yield* stampOf(files())
  let seen = known

  const reread = Effect.gen(function* () {
    const before = yield* stampOf(files())
    const { apply, needRestart, problems } = yield* read
    const after = yield* stampOf(files())
    // Somebody writes to it, or it names other files than before: the next looks decide. A file that lacks its last lines may permit more.
    if (before !== after) return
    seen = known = after
    if (problems.length > 0) {
      return yield* Effect.annotateLogs(Effect.logWarning("configuration_unusable"), {
        problems: problems.map(formatProblem)
      })
    }
    apply()
    yield* Effect.logInfo("configuration_reread")
    if (needRestart.length > 0) {
      yield* Effect.annotateLogs(Effect.logWarning("configuration_needs_restart"), { keys: needRestart })
    }
  })

  const look = Effect.gen(function* () {
    const before = seen
    seen = yield* stampOf(files())
    if (seen !== known && seen === before) yield* reread
  })

  return { look, reread }
})

/** Every SIGHUP, until the scope closes. */
export const hangUps = Effect.gen(function* () {
  const queue = yield* Queue.sliding<NodeJS.Signals>(1)
  const onSignal = (signal: NodeJS.Signals) => void Queue.offerUnsafe(queue, signal)
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("SIGHUP", onSignal)),
    () => Effect.sync(() => process.off("SIGHUP", onSignal))
  )
  return queue
})

/** Looks once a second, and reads at once on SIGHUP, until the scope closes. */
export const layer = (config: GatewayConfig["Service"]): Layer.Layer<never> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const asked = yield* hangUps
      const { look, reread } = yield* make(config)
      const next = Effect.timeoutOption(Queue.take(asked), "1 second")
      yield* Effect.forkScoped(
        Effect.forever(Effect.flatMap(next, Option.match({ onNone: () => look, onSome: () => reread })))
      )
    })
  )
