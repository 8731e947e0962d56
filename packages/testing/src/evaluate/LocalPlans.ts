import type { PlanView } from "@bowline/client"
import type { GivenFork } from "@bowline/client/forks"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PlansConfig } from "@bowline/runtime/config/PlansConfig"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { Provider } from "@bowline/runtime/provider/Provider"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { Effect, Layer, ManagedRuntime } from "effect"
import type { PlanRecording } from "../replay/RecordFile.ts"
import type { Asked } from "./Evaluate.ts"
import * as RecordedPlans from "./RecordedPlans.ts"

/** An app's plans: its model and its tools as one layer, and what `Plans.layerMemory` takes. Other models than `model` may be asked, too. */
export type LocalApp = Parameters<typeof PlansConfig.layer>[0] & { readonly app: Layer.Layer<Provider> }

/** The plans of an app in this process, in memory, and without peers. */
export interface LocalPlans {
  /** Runs one: for `evaluate`. */
  readonly ask: (asked: Asked, signal: AbortSignal) => Promise<PlanView>
  /** Ends those that run. */
  readonly close: () => Promise<void>
}

const graphOf = ({ app, ...config }: LocalApp, recordings: ReadonlyArray<PlanRecording>) =>
  Plans.layer.pipe(
    Layer.provide([
      CredentialPool.layerProvider,
      PlansConfig.layer({ allowsModel: () => true, ...config }),
      PeerClient.layerNone,
      McpClient.layerNone
    ]),
    Layer.provideMerge(RecordedPlans.layer(recordings)),
    Layer.provideMerge(MemoryStore.layer),
    Layer.provide(app)
  )

/** Runs an app's plans, and forks of plans that are on record, in this process. */
export const localPlans = (app: LocalApp, recordings: ReadonlyArray<PlanRecording> = []): LocalPlans => {
  const runtime = ManagedRuntime.make(graphOf(app, recordings))
  return {
    ask: (asked, signal) =>
      runtime.runPromise(
        Effect.flatMap(RecordedPlans.ask, (ask) => ask(asked)),
        { signal }
      ),
    close: () => runtime.dispose()
  }
}

/**
 * Runs a plan that is on record again from a step on, in this process, on an app's own model and tools. Calls get what was recorded, unless `tools` is `live`.
 *
 * @example
 * ```ts
 * import type { PlanView } from "@bowline/client"
 * import { fork, localPlans } from "@bowline/testing/evaluate/LocalPlans"
 * import { evaluate, type EvalCase, type Report } from "@bowline/testing/evaluate/Evaluate"
 * import type { PlanRecording } from "@bowline/testing/replay/Replay"
 * import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
 * import { say } from "@bowline/testing/provider/Turn"
 *
 * // The app's own model stands here, and its tools beside it.
 * const app = { model: "scripted/clerk", app: ScriptedProvider.layer([[say("It arrives on Friday.")]]) }
 *
 * export const again = (recording: PlanRecording): Promise<PlanView> => fork(recording, { step: 2 }, app)
 *
 * export const compare = (cases: ReadonlyArray<EvalCase>): Promise<Report> => {
 *   const { ask } = localPlans(app, cases.flatMap(({ recording }) => recording ?? []))
 *   return evaluate({ cases, ask })
 * }
 * ```
 */
export const fork = async (recording: PlanRecording, wanted: GivenFork, app: LocalApp): Promise<PlanView> => {
  const plans = localPlans(app, [recording])
  try {
    return await plans.ask({ _tag: "Fork", recording, wanted }, new AbortController().signal)
  } finally {
    await plans.close()
  }
}
