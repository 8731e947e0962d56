import type { Part } from "@bowline/testing/peer/Act"
import type { Part as SdkPart } from "a2a-sdk-0.3"
import { DefaultRequestHandler, InMemoryTaskStore, type AgentExecutor } from "a2a-sdk-0.3/server"
import { agentCardHandler, jsonRpcHandler, UserBuilder } from "a2a-sdk-0.3/server/express"
import { Effect, Schema, type Scope } from "effect"
import { Performer, type Stage } from "./Performer.ts"
import { listen, type Server, type ServerScript } from "./Server.ts"

const State = Schema.Literals([
  "submitted",
  "working",
  "input-required",
  "completed",
  "canceled",
  "failed",
  "rejected",
  "auth-required"
])
const toState = Schema.decodeUnknownSync(State)

const toPart: (part: Part) => SdkPart = Schema.decodeUnknownSync(
  Schema.Union([
    Schema.Struct({ kind: Schema.Literal("text"), text: Schema.String }),
    Schema.Struct({ kind: Schema.Literal("data"), data: Schema.JsonObject }),
    Schema.Struct({
      kind: Schema.Literal("file"),
      file: Schema.Struct({ name: Schema.String, mimeType: Schema.String, bytes: Schema.String })
    })
  ])
)

const contentOf = (part: SdkPart): unknown => {
  switch (part.kind) {
    case "text":
      return part.text
    case "data":
      return part.data
    case "file":
      return part.file
  }
}

const executor = (performer: Performer): AgentExecutor => ({
  execute: async ({ contextId, task, taskId, userMessage }, bus) => {
    let messages = 0
    const message = (parts: ReadonlyArray<Part>, ids: { readonly taskId?: string }) => ({
      kind: "message" as const,
      role: "agent" as const,
      messageId: `${userMessage.messageId}-${++messages}`,
      contextId,
      ...ids,
      parts: parts.map(toPart)
    })
    const stage: Stage = {
      begin: () => {
        if (task !== undefined) return
        bus.publish({ kind: "task", id: taskId, contextId, status: { state: "submitted" }, history: [userMessage] })
      },
      become: (state, parts, isFinal) => {
        const said = parts.length > 0 && { message: message(parts, { taskId }) }
        const status = { state: toState(state), ...said }
        bus.publish({ kind: "status-update", taskId, contextId, status, final: isFinal })
      },
      produce: (artifactId, parts, append) => {
        const artifact = { artifactId, parts: parts.map(toPart) }
        bus.publish({ kind: "artifact-update", taskId, contextId, artifact, append })
      },
      reply: (parts) => bus.publish(message(parts, {}))
    }
    const received = { parts: userMessage.parts.map(contentOf), continues: task !== undefined }
    if (await performer.play(taskId, received, stage)) bus.finished()
  },
  cancelTask: async (taskId, bus) => {
    performer.stop(taskId)
    const status = { state: "canceled" as const }
    bus.publish({ kind: "status-update", taskId, contextId: "", status, final: true })
    bus.finished()
  }
})

/** A server of A2A 0.3, made with the SDK of its own time. */
export const serve = Effect.fnUntraced(function* (script: ServerScript): Effect.fn.Return<Server, never, Scope.Scope> {
  const performer = new Performer(script)
  const url = yield* listen((app, origin) => {
    const modes = ["text/plain", "application/json"]
    const card = {
      name: "SDK 0.3",
      description: "Answers questions",
      url: `${origin}/a2a`,
      version: "1.0.0",
      protocolVersion: "0.3.0",
      preferredTransport: "JSONRPC",
      capabilities: { streaming: script.streams },
      defaultInputModes: modes,
      defaultOutputModes: modes,
      skills: [{ id: "ask", name: "Ask", description: "Answers a question", tags: [] }]
    }
    const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor(performer))
    app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }))
    app.use("/a2a", jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }))
  })
  return { url, dialect: "a2a-0.3", cancelled: performer.cancelled }
})
