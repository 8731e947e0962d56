import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { AskRequest, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Plans } from "@bowline/runtime/plan/Plans"
import { defaultPreset } from "@bowline/runtime/unstable/config/Presets"
import { Clock, Effect } from "effect"
import type { Asking, OpenAiPlans } from "../openai/OpenAiPlans.ts"
import type { ResponseEcho } from "./ResponseEcho.ts"
import type { ResponseRequest } from "./ResponseRequest.ts"
import type { StoredResponses } from "./StoredResponses.ts"

/** What a request is besides its fields. */
export type Sent = Pick<Asking, "headers" | "route" | "body">

/** Starts the plan of a request that asks, and gives what its response repeats. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses, openAi: OpenAiPlans) {
  const plans = yield* Plans

  /** The names of the agents and MCP servers that the plan of a request has. */
  const labelsOf = Effect.fnUntraced(function* (caller: CallerName, model: string, request: AskRequest) {
    const name = model.split("/")[1] ?? defaultPreset
    const preset = (yield* plans.presets(caller)).find((preset) => preset.name === name)
    const agents = [...(preset?.agents ?? []), ...request.agents]
    const servers = [...(preset?.servers ?? []).map(({ terms }) => terms), ...request.mcp_servers]
    return [...agents, ...servers].map(({ name }) => name)
  })

  return Effect.fnUntraced(function* (
    caller: CallerName,
    asked: ResponseRequest & Pick<Asking, "follows">,
    request: AskRequest,
    sent: Sent
  ) {
    const created_at = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
    const labels = yield* labelsOf(caller, asked.model, request)
    // A response does not show its input.
    const echo: ResponseEcho = { ...asked.echo, created_at, labels, input: [] }
    const { mayJoin, ...reading } = yield* openAi.start({
      ...asked,
      ...sent,
      request,
      echo: (request: PlanRequest): ResponseEcho => ({ ...echo, input: asked.input(request) }),
      session_ttl_ms: undefined,
      leavesNothing: !echo.store
    })
    // The first try has stored its own.
    return { ...reading, leg: 1, echo: mayJoin ? yield* stored.echo(caller, reading.plan_id) : echo }
  })
})
