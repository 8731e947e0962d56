import type { Part } from "@bowline/testing/peer/Act"
import { AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from "a2a-sdk-1"
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, type AgentExecutor } from "a2a-sdk-1/server"
import { agentCardHandler, jsonRpcHandler, UserBuilder } from "a2a-sdk-1/server/express"
import { Effect, type Scope } from "effect"
import { Performer, type Stage } from "./Performer.ts"
import { listen, type Server, type ServerScript } from "./Server.ts"

/** A part as JSON of A2A 1.0. */
const toPart = ({ data, file, kind, text }: Part) => {
  if (kind === "text") return { text }
  if (kind === "data") return { data, mediaType: "application/json" }
  if (typeof file !== "object" || file === null || !("bytes" in file)) throw new Error(`A script with ${kind}`)
  return { raw: file.bytes, filename: file.name, mediaType: file.mimeType }
}

const stateOf = (state: string) => `TASK_STATE_${state.toUpperCase().replaceAll("-", "_")}`

const executor = (performer: Performer): AgentExecutor => ({
  execute: async ({ contextId, task, taskId, userMessage }, bus) => {
    let messages = 0
    const message = (parts: ReadonlyArray<Part>, ids: { readonly taskId?: string }) => ({
      messageId: `${userMessage.messageId}-${++messages}`,
      role: "ROLE_AGENT",
      contextId,
      ...ids,
      parts: parts.map(toPart)
    })
    const stage: Stage = {
      begin: () => {
        const history = (task?.history ?? [userMessage]).map((said) => Message.toJSON(said))
        const status = { state: stateOf("submitted") }
        bus.publish(AgentEvent.task(Task.fromJSON({ id: taskId, contextId, status, history })))
      },
      become: (state, parts) => {
        const said = parts.length > 0 && { message: message(parts, { taskId }) }
        const status = { state: stateOf(state), ...said }
        bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ taskId, contextId, status })))
      },
      produce: (artifactId, parts, append) => {
        const artifact = { artifactId, parts: parts.map(toPart) }
        const event = { taskId, contextId, artifact, append }
        bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON(event)))
      },
      reply: (parts) => bus.publish(AgentEvent.message(Message.fromJSON(message(parts, {}))))
    }
    const parts = userMessage.parts.map(({ content }): unknown => content?.value)
    await performer.play(taskId, { parts, continues: task !== undefined }, stage)
  },
  cancelTask: async (taskId, bus) => {
    performer.stop(taskId)
    const status = { state: stateOf("canceled") }
    bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ taskId, contextId: "", status })))
  }
})

/** A server of A2A 1.0, made with the SDK. */
export const serve = Effect.fnUntraced(function* (script: ServerScript): Effect.fn.Return<Server, never, Scope.Scope> {
  const performer = new Performer(script)
  const url = yield* listen((app, origin) => {
    const modes = ["text/plain", "application/json"]
    const card = AgentCard.fromJSON({
      name: "SDK 1",
      description: "Answers questions",
      version: "1.0.0",
      supportedInterfaces: [{ url: `${origin}/a2a`, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
      capabilities: { streaming: script.streams },
      defaultInputModes: modes,
      defaultOutputModes: modes,
      skills: [{ id: "ask", name: "Ask", description: "Answers a question", tags: [] }]
    })
    const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor(performer))
    app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }))
    app.use("/a2a", jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }))
  })
  return { url, dialect: "a2a-1.0", cancelled: performer.cancelled }
})
