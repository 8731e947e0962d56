import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import { Effect } from "effect"
import type { PeerClient } from "../peer/PeerClient.ts"
import type { JsonSchema, Tool, ToolResult } from "./Tool.ts"
import * as ToolName from "./ToolName.ts"

/** What a skill takes that does not say what it takes. */
const textInput: JsonSchema = {
  type: "object",
  properties: { input: { type: "string", description: "What the agent is asked, in plain words" } },
  required: ["input"],
  additionalProperties: false
}

const fromError = ({ reason }: PeerError): ToolResult => ({
  state: reason._tag === "payment_required" ? "payment-required" : "failed",
  content: reason.message,
  error: { code: reason._tag, message: reason.message }
})

/** A skill of a peer as a tool of the planner. */
export const fromSkill = (peers: PeerClient["Service"], agent: Agent, skill: Skill): Tool => ({
  name: ToolName.forSkill(agent.name, skill.id),
  kind: "peer",
  agent: agent.name,
  skill: skill.id,
  description: skill.description ?? `Ask the agent ${agent.name}: ${skill.id}`,
  inputSchema: skill.input_schema ?? textInput,
  timeoutMs: skill.timeout_ms,
  call: (input, taskId, onEvent) =>
    peers.call({ agent, skill, taskId, input, continues: null, route: { hops: 1, via: [] } }, onEvent).pipe(
      Effect.map((result): ToolResult =>
        result.state === "completed"
          ? result
          : { ...result, error: { code: "task_failed", message: result.content.slice(0, 500) } }
      ),
      Effect.catchTag("PeerError", (error) => Effect.succeed(fromError(error)))
    )
})
