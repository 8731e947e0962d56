import { startDemo } from "@bowline/testing/DemoProcess"
import assert from "node:assert/strict"
import OpenAI from "openai"

const program = new URL("../../../apps/gateway/bin/bowline.mjs", import.meta.url)
const gateway = await startDemo(program)
try {
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: "none" })

  // A preset of the gateway is a model. The planner calls the agents of the preset.
  const stream = await client.chat.completions.create({
    model: "bowline/demo",
    messages: [{ role: "user", content: "Ask prompt what a bowline is." }],
    stream: true
  })
  let answer = ""
  for await (const { choices } of stream) {
    const content = choices[0]?.delta.content ?? ""
    process.stdout.write(content)
    answer += content
  }
  assert.match(answer, /“Demo answer, given at once, to: Ask prompt what a bowline is\.”/)

  // The gateway keeps the history of a session that the caller names.
  const say = async (content: string) => {
    const body = { model: "bowline", messages: [{ role: "user" as const, content }] }
    const said = await client.chat.completions.create(body, { headers: { "X-Bowline-Session": "example" } })
    return said.choices[0]?.message.content ?? ""
  }
  await say("What is a bowline?")
  assert.match(await say("And a clove hitch?"), /I see 1 earlier question of this session/)

  // A response in the background goes on without a reader. Whoever comes back gets what was missed, and then the rest.
  const begun = await client.responses.create({
    model: "bowline/demo",
    input: "Ask slow what a bowline is.",
    background: true,
    stream: true
  })
  let id = ""
  let last = -1
  for await (const event of begun) {
    if (event.type === "response.created") id = event.response.id
    last = event.sequence_number
    if (event.type === "response.in_progress") break
  }
  const resumed = await client.responses.retrieve(id, { stream: true, starting_after: last })
  let report = ""
  for await (const event of resumed) {
    assert.equal(event.sequence_number, ++last)
    if (event.type === "response.output_text.delta") report += event.delta
  }
  assert.match(report, /“Demo report, made in two seconds, on: Ask slow what a bowline is\.”/)
  assert.equal((await client.responses.retrieve(id)).status, "completed")

  // An agent that never answers: the deadline holds, and the client sees an error instead of half an answer.
  const stuck = {
    model: "bowline/demo",
    messages: [{ role: "user" as const, content: "Ask stuck what a bowline is." }],
    bowline: { preferences: { timeout_ms: 1_000 } }
  }
  await assert.rejects(client.chat.completions.create(stuck, { maxRetries: 0 }), { status: 504, code: "aborted" })
} finally {
  await gateway.stop()
}
