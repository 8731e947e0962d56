import type { Agent } from "@bowline/domain/peer/Agent"
import { type AttemptTimers, PlansConfig } from "@bowline/runtime/config/PlansConfig"
import type * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlannerText } from "@bowline/runtime/prompt/PlannerText"
import * as Recipes from "@bowline/runtime/prompt/Recipes"
import { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { AccountGrants } from "@bowline/runtime/unstable/auth/AccountGrants"
import { everything, Permissions } from "@bowline/runtime/unstable/config/Permissions"
import { noPreset, type Preset, Presets } from "@bowline/runtime/unstable/config/Presets"
import { CallTurns } from "@bowline/runtime/unstable/planner/CallPlaces"
import { FileLinks } from "@bowline/runtime/unstable/file/FileLinks"
import { StoresEach } from "@bowline/runtime/unstable/stream/Journal"
import { Duration, Effect, Layer, Random } from "effect"
import type { Comparison } from "./Comparison.ts"
import { abortIn, failedByStore, type How } from "./RecordedEnd.ts"
import * as RecordedProviders from "./RecordedProviders.ts"
import type { ReplayedPlan } from "./RecordedStore.ts"
import { callsIn, ownMessages, type Segment } from "./RecordedTakeovers.ts"
import * as RecordedWorld from "./RecordedWorld.ts"
import { type Fields, fieldsOf, listOf, type PlanRecording, written } from "./RecordFile.ts"

const { CurrentCall } = RecordedWorld

export const withoutAuth = (named: Fields): Fields => ({ ...named, auth: { type: "none" }, headers: undefined })

const ms = (value: unknown) => (typeof value === "number" ? Duration.millis(value) : undefined)

const timersOf = (timers: Fields): Partial<AttemptTimers> => {
  const firstToken = ms(timers["first_token_timeout_ms"])
  const idle = ms(timers["idle_timeout_ms"])
  const total = ms(timers["attempt_timeout_ms"])
  return { ...(firstToken && { firstToken }), ...(idle && { idle }), ...(total && { total }) }
}

/** The tools whose calls somebody had to decide about, for this reason. */
const askedAbout = ({ frames }: PlanRecording, why: string) =>
  new Set(
    frames
      .map(({ data, event }) => ({ event, data: fieldsOf(data) }))
      .filter(({ data, event }) => event === "approval.requested" && data["why"] === why)
      .map(({ data }) => String(data["tool"]))
  )

/** Gives calls side by side the order in which they started: what each of them waited for there, nobody waits for here. */
const turnsOf = (recording: PlanRecording, comparison: Comparison, how: How, segment: Segment): Layer.Layer<never> => {
  const calls = callsIn(ownMessages(recording))
  const abort = abortIn(recording, comparison, how, segment) ?? 0
  const last = comparison.expected.slice(0, abort).findLast(({ event }) => event !== "inbox.accepted")
  /** The call behind whose end the plan was aborted, before it did anything else: its process may have been gone. */
  const lastCall = last?.event === "task.finished" ? fieldsOf(last.data)["task_id"] : undefined
  const isLast = (call: string) =>
    lastCall !== undefined &&
    comparison.recordedIdOf(call) === lastCall &&
    comparison.attempts >= recording.attempts.length
  return Layer.succeed(CallTurns, {
    expect: (step) => {
      for (const task_id of step) {
        if (comparison.recordedIdOf(task_id) !== undefined) continue
        const recorded = calls.find((call) => comparison.replayedTask(call) === undefined)
        if (recorded !== undefined) comparison.know(recorded, task_id)
      }
    },
    within: (call, make) =>
      Effect.tap(Effect.provideService(make, CurrentCall, call), () => (isLast(call) ? Effect.never : Effect.void)),
    await: (call) =>
      Effect.suspend(() => {
        const recorded = comparison.recordedIdOf(call)
        if (recorded === undefined) return Effect.void
        const { came, expected } = comparison
        const index = expected.findIndex(
          ({ data }, index) => index >= came.length && fieldsOf(data)["task_id"] === recorded
        )
        // A call that was made while the store was away is not on record.
        if (index < 0) return failedByStore(recording) ? Effect.void : Effect.never
        return comparison.turn(index)
      })
  })
}

/** Delays of retries are drawn. Here each is the least: so whatever was tried again there is in time here, too. Where the plan has given up, it is the greatest: a retry may have had no time left. */
const delaysOf = (recording: PlanRecording, comparison: Comparison) => ({
  nextDoubleUnsafe: () => (RecordedProviders.hasGivenUp(recording, comparison) ? 1 : 0),
  nextIntUnsafe: () => 0
})

/** Of a plan that was over before any process had begun it, no settings are on record: it needs none. */
const neverBegun = ({ plan }: PlanRecording): Fields => ({
  settings: { model: plan.model, fallback_models: [], context_window: 200_000, max_retries: 0, tool_concurrency: 1 },
  planner: "",
  recipes: [],
  preset: { name: fieldsOf(plan.request)["preset"] ?? noPreset.name }
})

/** Where the gateway had URLs of files, nobody reads what they are. */
const links = {
  root: undefined,
  urlOf: () => Effect.succeed("https://files.invalid"),
  ownerOf: () => Effect.succeedNone
}

/** The graph of a gateway, on the record: the planner of this version, stores in memory, and nothing outside. */
export const graphOf = (
  recording: PlanRecording,
  comparison: Comparison,
  replayed: ReplayedPlan,
  how: How,
  stores: Layer.Layer<MemoryStore.Stores>
) => {
  const { segment } = replayed
  comparison.to = segment.to
  const [begin] = recording.begins
  const environment =
    begin === undefined ? neverBegun(recording) : fieldsOf(JSON.parse(recording.texts.get(begin.environment) ?? "{}"))
  const settings = fieldsOf(environment["settings"])
  const models = fieldsOf(settings["models"])
  const overrides = {
    exact: new Map(Object.entries(fieldsOf(models["exact"]))),
    named: new Map(Object.entries(fieldsOf(models["named"])))
  }
  const rules = RecordedWorld.rulesOf(recording, segment)
  const sensitive = new Set([...askedAbout(recording, "sensitive"), ...rules.sensitive])
  const always = new Set([...askedAbout(recording, "always"), ...rules.always])
  const first = ms(settings["first_token_timeout_ms"])
  const idle = ms(settings["idle_timeout_ms"])
  const config: Layer.Layer<PlansConfig> = PlansConfig.layer({
    model: String(settings["model"]),
    fallbackModels: written<ReadonlyArray<string>>(settings["fallback_models"]),
    ...(typeof settings["summary_model"] === "string" && { summaryModel: settings["summary_model"] }),
    allowsModel: () => true,
    models: () => written(overrides),
    contextWindow: Number(settings["context_window"]),
    ...(first && { firstTokenTimeout: first }),
    ...(idle && { idleTimeout: idle }),
    attemptTimeout: ms(settings["attempt_timeout_ms"]) ?? Duration.minutes(30),
    providerTimers: new Map(
      listOf(settings["provider_timers"]).map((timers) => [String(timers["provider"]), timersOf(timers)])
    ),
    maxRetries: Number(settings["max_retries"]),
    retryBase: ms(settings["retry_base_ms"]) ?? Duration.seconds(1),
    parkAfter: ms(settings["park_after_ms"]),
    shutdownGrace: Duration.zero,
    loop: written(settings["loop"]),
    toolConcurrency: Number(settings["tool_concurrency"]),
    toolTimeout: ms(settings["tool_timeout_ms"]) ?? Duration.hours(6),
    declareAtMost: Number(settings["declare_at_most"]),
    budgetOf: (caller) => (caller === recording.plan.caller ? replayed.budget : undefined),
    approvals: { isAlways: (tool) => always.has(tool), isSensitive: (tool) => sensitive.has(tool) },
    effectOf: (tool) => new Map(Object.entries(rules.effects)).get(tool),
    // It was taken at its price.
    unknownPrice: "ignore"
  })
  const given = fieldsOf(environment["preset"])
  const preset: Preset = {
    ...noPreset,
    name: String(given["name"]),
    agents: listOf(given["agents"]).map((agent) => written<Agent>(withoutAuth(agent))),
    servers: listOf(given["servers"]).map(({ address, ...terms }) => ({
      terms: written(terms),
      address: String(address),
      connect: () =>
        Effect.suspend(() => RecordedWorld.connectionOf(recording, comparison, String(terms["name"]), segment))
    })),
    preferences: fieldsOf(given["preferences"]),
    instructions: typeof given["instructions"] === "string" ? given["instructions"] : undefined
  }
  return Plans.layer.pipe(
    Layer.provideMerge(replayed.layer(stores)),
    Layer.provideMerge(RecordedWorld.layer(recording, comparison, segment)),
    Layer.provideMerge(RecordedProviders.layer(recording, comparison, how, segment, replayed)),
    Layer.provideMerge(config),
    // Also for the fibers of plans.
    Layer.provideMerge(turnsOf(recording, comparison, how, segment)),
    Layer.provideMerge(Layer.succeed(Random.Random, delaysOf(recording, comparison))),
    Layer.provideMerge(Layer.succeed(StoresEach, comparison.segments.length > 1)),
    Layer.provide([
      // An account is known by the place where it could be granted.
      Layer.effect(
        AccountGrants,
        Effect.map(AccountGrants, (grants) => ({
          ...grants,
          linkOf: ({ account }: { readonly account: string }) => Effect.succeed(account)
        }))
      ),
      settings["file_links"] === true ? Layer.succeed(FileLinks, links) : Layer.empty,
      Layer.succeed(Permissions, {
        forCaller: () => ({
          ...everything,
          tool: (name) => !rules.withheld.includes(name),
          recipe: (name) => !rules.recipes.includes(name)
        })
      }),
      Layer.succeed(PlannerText, Effect.succeed(String(environment["planner"]))),
      Recipes.layer(written(environment["recipes"])),
      Layer.succeed(Presets, new Map([[preset.name, preset]])),
      Layer.succeed(
        LocalTools,
        listOf(environment["tools"]).map((tool) => RecordedWorld.localTool(recording, comparison, tool))
      )
    ])
  )
}
