import type { Agent, Skill } from "@bowline/domain/peer/Agent"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import { handedBack } from "@bowline/domain/tool/TaskState"
import { Effect } from "effect"
import type { PeerClient, RemoteIds, Route } from "../peer/PeerClient.ts"
import type { HandedBackTasks } from "./HandedBackTasks.ts"
import type { AgentDid, JsonSchema, Tool, ToolResult } from "./Tool.ts"
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

/** The DID that the request pins, else the one on the card, where the card is read anyway, or has to be for it. */
const identify = (peers: PeerClient["Service"], agent: Agent): Effect.Effect<AgentDid | null> => {
  const { dialect, skills, trust = {} } = agent
  if (trust.pinned_did !== undefined) return Effect.succeed({ did: trust.pinned_did, source: "pinned" })
  if (skills !== undefined && dialect !== "auto" && trust.verify_did !== true) return Effect.succeed(null)
  return peers.discover(agent).pipe(
    Effect.map(({ did }): AgentDid | null => (did === null ? null : { did, source: "observed" })),
    Effect.orElseSucceed(() => null)
  )
}

/** What the calls of a plan share. */
interface Shared {
  readonly peers: PeerClient["Service"]
  readonly left: HandedBackTasks
  readonly route: Route
}

/** A skill of a peer as a tool of the planner. */
export const fromSkill = ({ left, peers, route }: Shared, agent: Agent, skill: Skill): Tool => {
  const name = ToolName.forSkill(agent.name, skill.id)

  /** What the peer has handed back is there for the next call. */
  const leave = (result: ToolResult, task: RemoteIds | null): ToolResult => {
    if (!handedBack.has(result.state) || task === null || task.taskId === null) return result
    left.leave(agent, skill, task)
    return { ...result, note: `The task is not over: the next call of ${name} goes on with it.` }
  }

  return {
    name,
    kind: "peer",
    agent: agent.name,
    endpoint: agent.endpoint,
    skill: skill.id,
    description: skill.description ?? `Ask the agent ${agent.name}: ${skill.id}`,
    inputSchema: skill.input_schema ?? textInput,
    timeoutMs: skill.timeout_ms,
    identify: identify(peers, agent),
    call: (input, taskId, onEvent) =>
      Effect.suspend(() => {
        const continues = left.take(agent, skill)
        let accepted: RemoteIds | null = null
        return peers
          .call({ agent, skill, taskId, input, continues, route }, (event) => {
            if (event._tag === "Accepted") {
              accepted = { taskId: event.remoteTaskId, contextId: event.remoteContextId }
            }
            return onEvent(event)
          })
          .pipe(
            Effect.map((result): ToolResult =>
              result.state === "completed"
                ? result
                : { ...result, error: { code: "task_failed", message: result.content.slice(0, 500) } }
            ),
            Effect.catchTag("PeerError", (error) =>
              Effect.sync(() => {
                // The call has not reached the peer: there is still what it was to go on with.
                if (continues !== null && accepted === null) left.leave(agent, skill, continues)
                return fromError(error)
              })
            ),
            Effect.map((result) => leave(result, accepted ?? continues))
          )
      })
  }
}
