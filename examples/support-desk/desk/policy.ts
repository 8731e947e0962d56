import { AgentCard, Message, Role } from "a2a-sdk-1"
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, type AgentExecutor } from "a2a-sdk-1/server"
import { agentCardHandler, jsonRpcHandler, UserBuilder } from "a2a-sdk-1/server/express"
import express from "express"
import type { AddressInfo } from "node:net"

// An agent of your own would ask a model here, or a person.
const executor: AgentExecutor = {
  execute: async ({ contextId, userMessage }, bus) => {
    bus.publish(
      AgentEvent.message(
        Message.fromJSON({
          messageId: `${userMessage.messageId}-answer`,
          role: Role.ROLE_AGENT,
          contextId,
          parts: [{ text: "Returns within 30 days of delivery get the whole price back." }]
        })
      )
    )
  },
  cancelTask: async () => undefined
}

const app = express()
export const server = app.listen(Number(process.env["PORT"] ?? 4100), "127.0.0.1", () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const card = AgentCard.fromJSON({
    name: "Policy",
    description: "Knows the rules of the shop",
    version: "1.0.0",
    supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
    capabilities: { streaming: false },
    defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"],
    skills: [{ id: "ask", name: "Ask", description: "Says what the policy of the shop allows", tags: [] }]
  })
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor)
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }))
  app.use("/", jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }))
  console.log(`The policy agent listens on ${url}`)
})
