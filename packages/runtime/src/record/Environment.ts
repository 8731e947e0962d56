import type { Agent } from "@bowline/domain/peer/Agent"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Duration, Effect, Struct } from "effect"
import type { PlansConfig } from "../config/PlansConfig.ts"
import type { Preset } from "../config/Presets.ts"
import * as UrlSecrets from "../egress/UrlSecrets.ts"
import type { RecipeTable } from "../prompt/Recipes.ts"
import type { PlanStore } from "../store/PlanStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { Tool } from "../tool/Tool.ts"
import { digestOf } from "./PromptDigest.ts"

/** What an operator has set that shapes a plan. Functions are asked about the tools that a plan has, and stand in its own record. */
const settingsOf = (config: PlansConfig["Service"]) => {
  const ms = (duration: Duration.Duration | undefined) => (duration === undefined ? null : Duration.toMillis(duration))
  const { exact, named } = config.models()
  const { contextWindow, declareAtMost, fallbackModels, loop, maxRetries, model, summaryModel, toolConcurrency } =
    config
  return {
    model,
    fallback_models: fallbackModels,
    summary_model: summaryModel ?? null,
    models: { exact: Object.fromEntries(exact), named: Object.fromEntries(named) },
    context_window: contextWindow,
    first_token_timeout_ms: ms(config.firstTokenTimeout),
    idle_timeout_ms: ms(config.idleTimeout),
    attempt_timeout_ms: ms(config.attemptTimeout),
    ...(config.providerTimers.size > 0 && {
      provider_timers: Array.from(config.providerTimers, ([provider, { firstToken, idle, total }]) => ({
        provider,
        first_token_timeout_ms: ms(firstToken),
        idle_timeout_ms: ms(idle),
        attempt_timeout_ms: ms(total)
      }))
    }),
    max_retries: maxRetries,
    retry_base_ms: ms(config.retryBase),
    park_after_ms: ms(config.parkAfter),
    loop,
    tool_concurrency: toolConcurrency,
    tool_timeout_ms: ms(config.toolTimeout),
    declare_at_most: declareAtMost
  }
}

/** Without its secrets. */
const shownAgent = ({ auth, ...agent }: Agent) => ({
  ...agent,
  endpoint: UrlSecrets.without(agent.endpoint),
  auth: { type: auth.type }
})

const shownTerms = [
  "name",
  "allowed_tools",
  "approval",
  "tool_timeout_ms",
  "pinned_tools",
  "effects",
  "required"
] as const

const shownTool = (tool: Tool) => ({
  ...Struct.pick(tool, ["name", "kind", "description", "inputSchema", "isIdempotent", "isPolling"]),
  ...(tool.timeoutMs !== undefined && { timeoutMs: tool.timeoutMs }),
  ...(tool.approval !== undefined && { approval: tool.approval }),
  ...(tool.approvalReason !== undefined && { approvalReason: tool.approvalReason }),
  ...(tool.effect !== undefined && { effect: tool.effect })
})

interface Texts {
  readonly planner: string
  readonly recipes: RecipeTable
  readonly local: ReadonlyArray<Tool>
}

/** The text of all that an operator has written and set that a plan of this preset depends on. */
const textOf = (
  config: PlansConfig["Service"],
  hasLinks: boolean,
  preset: Preset,
  { local, planner, recipes }: Texts
): string =>
  JSON.stringify({
    settings: { ...settingsOf(config), ...(hasLinks && { file_links: true }) },
    planner,
    preset: {
      name: preset.name,
      agents: preset.agents.map(shownAgent),
      servers: preset.servers.map(({ address, terms }) => ({ address, ...Struct.pick(terms, shownTerms) })),
      preferences: preset.preferences,
      instructions: preset.instructions ?? null
    },
    recipes: Array.from(recipes.values()),
    tools: local.map(shownTool)
  })

/** How many digests a process remembers to have stored. */
const remembered = 1_000

/** Keeps texts of the operator once, by their digests: those that are stored already cost nothing. `hasLinks`: files have URLs. */
export const make = (config: PlansConfig["Service"], store: PlanStore["Service"], hasLinks: boolean) => {
  const stored = new Set<string>()
  const last = new Map<string, Texts & { readonly preset: Preset; readonly digest: string }>()

  const keep = (text: string): Effect.Effect<string, StorageError> => {
    const digest = digestOf(text)
    if (stored.has(digest)) return Effect.succeed(digest)
    return Effect.map(retryWhileAway(store.keepText(digest, text)), () => {
      if (stored.size >= remembered) stored.clear()
      stored.add(digest)
      return digest
    })
  }

  /** The digest of the environment of a plan with this preset. */
  const of = (preset: Preset, texts: Texts): Effect.Effect<string, StorageError> => {
    const known = last.get(preset.name)
    const isKnown =
      known?.preset === preset &&
      known.planner === texts.planner &&
      known.recipes === texts.recipes &&
      known.local === texts.local
    if (isKnown && stored.has(known.digest)) return Effect.succeed(known.digest)
    return Effect.map(keep(textOf(config, hasLinks, preset, texts)), (digest) => {
      last.set(preset.name, { ...texts, preset, digest })
      return digest
    })
  }

  return { keep, of }
}

export type Environment = ReturnType<typeof make>
