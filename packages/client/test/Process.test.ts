import { assert, describe, it } from "vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"
import { answered, frame, planId } from "./Gateway.ts"

const frames = answered("Hel", "lo")

type Answer = (response: ServerResponse) => void

const events =
  (...texts: ReadonlyArray<string>): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.end(texts.join(""))
  }

const json =
  (status: number, body: object, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers })
    response.end(JSON.stringify(body))
  }

/** Away for so long that only a process that waits for it sees the next answer. */
const away = (seconds: number): Answer =>
  json(503, { code: "draining", retryable: true }, { "retry-after": String(seconds) })

/** Runs a script as a process of its own, against a gateway that gives these answers. No answer keeps a connection open. */
const run = async (script: string, ...answers: ReadonlyArray<Answer>) => {
  const asked: Array<string> = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    response.setHeader("connection", "close")
    request.resume()
    answers[asked.length - 1]?.(response)
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  const url = typeof address === "object" ? `http://127.0.0.1:${address?.port}` : ""
  const client = new URL("../src/Bowline.ts", import.meta.url).href
  const program = `
    import { createBowline } from ${JSON.stringify(client)}
    const bowline = createBowline({ baseUrl: ${JSON.stringify(url)} })
    const plan = () => bowline.plan({ question: "Which knot?" })
    ${script}`
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  let stdout = ""
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (stdout += chunk))
  try {
    await once(child, "close")
    return { stdout, code: child.exitCode, asked }
  } finally {
    child.kill("SIGKILL")
    server.close()
  }
}

const resume = `GET /plans/${planId}/events`

describe("a script in Node.js", () => {
  it.each([
    ["its result", "plan().result().then(({ text }) => console.log(text))"],
    ["its result, at its top level", "console.log((await plan().result()).text)"],
    [
      "its frames",
      `let last; (async () => { for await (const { event } of plan()) last = event; console.log(last) })()`
    ],
    ["its texts, at its top level", "let last; for await (const text of plan().text()) last = text; console.log(last)"]
  ])("lives while it awaits %s and the stream is away", async (what, script) => {
    const { asked, code, stdout } = await run(
      script,
      events(...frames.slice(0, 3)),
      away(1),
      events(...frames.slice(3))
    )
    assert.deepStrictEqual(
      { asked, code, stdout },
      { asked: ["POST /plan", resume, resume], code: 0, stdout: what === "its frames" ? "done\n" : "Hello\n" }
    )
  })

  it("lives while it awaits the name of its plan, and what it asks besides", async () => {
    const named = await run("console.log(await plan().planId)", away(1), events(...frames))
    assert.deepInclude(named, { code: 0, stdout: `${planId}\n` })
    const cancel = "console.log((await bowline.attach('plan_1').cancel()).state)"
    const aborted = json(200, { state: "aborted" })
    const cancelled = await run(cancel, away(1), away(1), aborted, aborted)
    assert.deepInclude(cancelled, { code: 0, stdout: "aborted\n" })
    const state = "bowline.plans.get('plan_1').then(({ state }) => console.log(state))"
    const asked = await run(state, away(1), json(200, { state: "completed" }))
    assert.deepInclude(asked, { code: 0, stdout: "completed\n" })
  })

  it("ends when its last reader has left, whether or not the gateway answers the cancel", async () => {
    const script = "for await (const { id } of plan()) if (id === 3) break; console.log('left')"
    const { code, stdout } = await run(script, events(...frames.slice(0, 3)), away(600))
    assert.deepStrictEqual([code, stdout], [0, "left\n"])
  })

  it("ends by itself where nobody awaits its plan", async () => {
    const { asked, code } = await run("plan()", away(600))
    assert.deepStrictEqual([asked, code], [["POST /plan"], 0])
    const lost = await run("plan()", events(frame(1, "session")), away(600))
    assert.strictEqual(lost.code, 0)
  })
})
