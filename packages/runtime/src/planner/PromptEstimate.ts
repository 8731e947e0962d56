import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import * as TokenEstimate from "../compaction/TokenEstimate.ts"
import { contextBlock } from "../compaction/Summary.ts"
import { AskerFacts } from "../config/AskerFacts.ts"
import type { Permissions } from "../config/Permissions.ts"
import * as Presets from "../config/Presets.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { PlannerText } from "../prompt/PlannerText.ts"
import { Recipes } from "../prompt/Recipes.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { systemPrompt } from "./SystemPrompt.ts"

/** What a plan goes on from: messages, and what stands in place of earlier ones. */
export interface Begun {
  readonly told: ReadonlyArray<Entry>
  readonly prior_summary: string
}

/**
 * Counts the tokens of the prompt of a plan's first step, and asks nobody: of tools only those of the client are in it, since what agents and MCP
 * servers have is found out as a plan begins. `begun` is in place of the session that the request names.
 */
export const make = Effect.fnUntraced(function* (config: {
  readonly model: string
  readonly permissions: typeof Permissions.Service
}) {
  const presets = yield* Presets.Presets
  const sessions = yield* SessionStore
  const planner = yield* PlannerText
  const known = yield* Recipes
  const uuid = yield* UuidGenerator

  /** What the session of the request says: without one, what the request says. */
  const begunBy = Effect.fnUntraced(
    function* (caller: CallerName, request: PlanRequest) {
      const { session_id: name = "", prior_summary = "" } = request
      const { session_id } = yield* sessions.find(caller, name)
      const [told, { priors, text }] = yield* Effect.all([sessions.history(session_id), sessions.summary(session_id)])
      const summaries = [...priors, text ?? "", prior_summary].filter((summary) => summary !== "")
      return { told, prior_summary: summaries.join("\n\n") }
    },
    (found, _caller, { history, prior_summary = "" }) =>
      Effect.catchTag(found, "NotFound", () =>
        Effect.succeed({
          told: history.map(({ content, parts, role }): Entry => ({
            role,
            parts: parts ?? [{ type: "text", text: content }]
          })),
          prior_summary
        })
      )
  )

  return Effect.fnUntraced(function* (
    caller: CallerName,
    request: PlanRequest,
    begun: Begun | undefined
  ): Effect.fn.Return<number, StorageError> {
    const { groups } = yield* AskerFacts
    const ofCaller = config.permissions.forCaller(caller, groups)
    const preset = Presets.find(presets, ofCaller, request.preset) ?? Presets.noPreset
    const { prior_summary, told } = begun ?? (yield* begunBy(caller, request))
    const delimiter = uuid()
    const { model = preset.preferences.model ?? config.model, response_format = "text" } = request.preferences
    const count = yield* TokenEstimate.forModel(model)
    const question: Entry = {
      role: "user",
      parts: request.question_parts ?? [{ type: "text", text: request.question }]
    }
    const frame = yield* TokenEstimate.weighFrame(count, {
      system: systemPrompt({
        planner: yield* planner,
        instructions: preset.instructions,
        ofRequest: request.instructions,
        recipes: Array.from((yield* known).values()).filter(({ name }) => ofCaller.recipe(name)),
        delimiter,
        agents: [],
        sources: undefined,
        unreachable: [],
        files: [],
        summary: contextBlock(delimiter, prior_summary === "" ? [] : [prior_summary]),
        mustAnswer: false,
        responseFormat: response_format
      }),
      tools: request.tools.map((tool) => ({
        name: tool.name,
        description: tool.description ?? "",
        inputSchema: tool.input_schema
      }))
    })
    return TokenEstimate.ofPrompt(frame, yield* TokenEstimate.weighAll(count, [...told, question]), undefined)
  })
})
