import { startDemo } from "@bowline/testing/DemoProcess"
import { Role, TaskPushNotificationConfig, TaskState, type Task } from "a2a-sdk-1"
import { ClientFactory } from "a2a-sdk-1/client"
import assert from "node:assert/strict"
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"

const ask = (text: string, returnImmediately: boolean, notify?: string) => ({
  tenant: "",
  message: {
    messageId: crypto.randomUUID(),
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text" as const, value: text }, metadata: undefined, filename: "", mediaType: "" }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: []
  },
  configuration: {
    acceptedOutputModes: [],
    returnImmediately,
    taskPushNotificationConfig:
      notify === undefined ? undefined : TaskPushNotificationConfig.fromJSON({ url: notify, token: "from the example" })
  },
  metadata: undefined
})

const asTask = (answer: object): Task => {
  assert("status" in answer)
  return answer as Task
}

const answerOf = ({ artifacts }: Task): string => {
  const content = artifacts.find(({ artifactId }) => artifactId === "answer")?.parts[0]?.content
  return content?.$case === "text" ? content.value : ""
}

const program = new URL("../../../apps/gateway/bin/bowline.mjs", import.meta.url)
const gateway = await startDemo(program, new URL("../gateway.json", import.meta.url))
const receiver = createServer()
try {
  // A preset of the gateway is an agent with a card of its own. The planner calls the agents of the preset.
  const client = await new ClientFactory().createFromUrl(gateway.url, "/a2a/agents/demo/.well-known/agent-card.json")

  // A piece of text is appended, or takes the place of what was shown.
  let answer = ""
  for await (const { payload } of client.sendMessageStream(ask("Ask prompt what a bowline is.", false))) {
    if (payload?.$case !== "artifactUpdate" || payload.value.artifact?.artifactId !== "answer") continue
    const content = payload.value.artifact.parts[0]?.content
    const text = content?.$case === "text" ? content.value : ""
    answer = payload.value.append ? answer + text : text
  }
  assert.match(answer, /“Demo answer, given at once, to: Ask prompt what a bowline is\.”/)
  console.log(answer)

  // A task runs on without a reader. Whoever subscribes again gets the task, and then the rest.
  const begun = asTask(await client.sendMessage(ask("Ask slow what a bowline is.", true)))
  for await (const { payload } of client.resubscribeTask({ tenant: "", id: begun.id })) {
    console.log("subscribed:", payload?.$case)
  }
  const ended = await client.getTask({ tenant: "", id: begun.id, historyLength: undefined })
  assert.equal(ended.status?.state, TaskState.TASK_STATE_COMPLETED)
  assert.match(answerOf(ended), /“Demo report, made in two seconds, on: Ask slow what a bowline is\.”/)

  // A client that does not want to wait is notified.
  const states: Array<string> = []
  const isTold = new Promise<void>((resolve) => {
    const receive = async (request: IncomingMessage, response: ServerResponse) => {
      assert.equal(request.headers["x-a2a-notification-token"], "from the example")
      const { statusUpdate } = (await json(request)) as { statusUpdate?: { status: { state: string } } }
      response.end()
      if (statusUpdate === undefined) return
      states.push(statusUpdate.status.state)
      if (statusUpdate.status.state === "TASK_STATE_COMPLETED") resolve()
    }
    receiver.on("request", (request, response) => void receive(request, response))
  })
  receiver.listen(0, "127.0.0.1")
  await once(receiver, "listening")
  const { port } = receiver.address() as AddressInfo
  await client.sendMessage(ask("Ask prompt what a clove hitch is.", true, `http://127.0.0.1:${port}/`))
  await isTold
  assert.deepEqual(states, ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"])

  // An agent that never answers: a cancel reaches it.
  const stuck = asTask(await client.sendMessage(ask("Ask stuck what a bowline is.", true)))
  const cancelled = await client.cancelTask({ tenant: "", id: stuck.id, metadata: undefined })
  assert.equal(cancelled.status?.state, TaskState.TASK_STATE_CANCELED)
} finally {
  receiver.close()
  await gateway.stop()
}
