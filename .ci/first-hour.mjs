// The first hours of three people, one command after the other, without a network: somebody who writes an app in front of the gateway, somebody who runs plans in an
// app built on Effect, and somebody who operates the gateway. Each step says how long it took, and how long it may take on a quiet machine; one that fails ends with 1.
// The packages are packed first; `--packed` takes those that were packed last.
import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createServer } from "node:http"
import { createInterface } from "node:readline"
import { install } from "./publish/consumer.mjs"
import { pack } from "./publish/pack.mjs"
import { serveRegistry } from "./publish/registry.mjs"
import { readTarballs } from "./publish/tarballs.mjs"
import { bin, capture, environment, megabytesOf, root } from "./setup.mjs"

const bowline = join(root, "apps/gateway/bin/bowline.mjs")
const folder = mkdtempSync(join(tmpdir(), "bowline-first-hour-"))
const settings = (more) => ({ PATH: environment().PATH, BOWLINE_PORT: "0", BOWLINE_DATA_DIR: "memory:", ...more })

/** Seconds, several times what a step takes on two quiet cores: most of them have 5. A busy machine may take longer, so nothing fails of it. */
const bounds = { "npm install": 30, "the tutorial's agent, servers and approval": 10 }

const step = async (what, work) => {
  const since = performance.now()
  const found = await work()
  const seconds = (performance.now() - since) / 1000
  const bound = bounds[what] ?? 5
  process.stdout.write(`  ${seconds.toFixed(1)} s (${seconds <= bound ? "of" : "above"} ${bound})  ${what}\n`)
  return found
}

/** A gateway, once it listens, with what stops it: how it ended. */
const serve = async (env, ...flags) => {
  const gateway = spawn(bin("node"), [bowline, "serve", ...flags], {
    cwd: folder,
    env,
    stdio: ["ignore", "ignore", "pipe"]
  })
  const ended = once(gateway, "close")
  const lines = createInterface({ input: gateway.stderr })
  const url = await new Promise((resolve, reject) => {
    const said = []
    lines.on("line", (line) => {
      said.push(line)
      const found = /Listening on (http:\/\/[^\s"]+)/.exec(line)?.[1]
      if (found !== undefined) resolve(found)
    })
    void ended.then(() => reject(new Error(`The gateway ended:\n${said.join("\n")}`)))
  })
  const stop = async () => {
    gateway.kill("SIGTERM")
    return (await ended)[0]
  }
  return { url, stop }
}

const post = (url, body, headers = {}) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body)
  })

const asJson = { accept: "application/json" }

const run = async (command, args, options) => {
  const { code, output } = await capture(command, args, { cwd: folder, ...options })
  assert.equal(code, 0, output)
  return output
}

const appDeveloper = async () => {
  const gateway = await step("the gateway listens", () => serve(settings({})))
  try {
    const question = { question: "Ask prompt what a bowline is.", preset: "demo", session_id: "first" }
    await step("the first answer", async () => {
      const { final, state } = await (await post(`${gateway.url}/plan`, question, asJson)).json()
      assert.equal(state, "completed")
      assert.match(final.text, /Demo answer/)
    })
    await step("the same as a stream", async () => {
      assert.match(await (await post(`${gateway.url}/plan`, question)).text(), /event: final[^]*event: done/)
    })
    await step("the same as a client of OpenAI", async () => {
      const body = { model: "bowline/demo", messages: [{ role: "user", content: question.question }] }
      const { choices } = await (await post(`${gateway.url}/v1/chat/completions`, body)).json()
      assert.match(choices[0].message.content, /Demo answer/)
    })
    await step("an agent that never answers, and a deadline", async () => {
      const stuck = { question: "Ask stuck.", preset: "demo", preferences: { timeout_ms: 1_000 } }
      const { error } = await (await post(`${gateway.url}/plan`, stuck, asJson)).json()
      assert.deepEqual([error.code, error.reason], ["aborted", "deadline"])
    })
    await step("an answer in a shell", async () => {
      const env = settings({ BOWLINE_URL: gateway.url })
      assert.match(await run(bin("node"), [bowline, "ask", "--preset", "demo", "Ask prompt."], { env }), /Demo answer/)
    })
  } finally {
    await gateway.stop()
  }
  await step("the tutorial's agent, servers and approval", () =>
    run(bin("node"), ["src/main.ts"], { cwd: join(root, "examples/support-desk") })
  )
}

/** Megabytes of what `docs/start/embed.md` installs. */
const largest = 80

/** Stands in for a provider: asks for the order, then says what the tool has answered. */
const serveModel = async () => {
  const chunk = (delta, finish_reason = null) =>
    `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`
  const call = {
    index: 0,
    id: "call_1",
    type: "function",
    function: { name: "find_order", arguments: '{"order_id":7}' }
  }
  const answer = async (request, response) => {
    const { messages } = await new Response(request).json()
    const result = messages.findLast(({ role }) => role === "tool")?.content
    const chunks =
      result === undefined
        ? chunk({ tool_calls: [call] }) + chunk({}, "tool_calls")
        : chunk({ content: String(result) }) + chunk({}, "stop")
    response.writeHead(200, { "content-type": "text/event-stream" }).end(`${chunks}data: [DONE]\n\n`)
  }
  const server = createServer((request, response) => void answer(request, response))
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { url: `http://127.0.0.1:${server.address().port}/v1`, close: () => server.close() }
}

const effectDeveloper = async () => {
  const page = readFileSync(join(root, "docs/start/embed.md"), "utf8")
  const names = /^npm install (.*)$/m.exec(page)[1].split(" ")
  const program = /^```ts run\n([^]*?)^```$/m.exec(page)[1]
  const app = join(folder, "app")
  mkdirSync(app)
  if (!process.argv.includes("--packed")) {
    const problem = await pack()
    assert.equal(problem, undefined, problem)
  }
  const registry = await serveRegistry(await readTarballs())
  const add = async (names) => assert.deepEqual(await install("npm", app, registry.url, names), [])
  const model = await serveModel()
  try {
    await step("npm install", () => add(names))
    const megabytes = megabytesOf(join(app, "node_modules"))
    process.stdout.write(`  ${megabytes} MB (of ${largest})\n`)
    assert.ok(megabytes <= largest, `${names.join(", ")} need ${megabytes} MB: ${largest} is the limit`)
    writeFileSync(join(app, "app.ts"), program)
    await step("the app of the page", async () => {
      const env = { PATH: environment().PATH, OPENAI_API_KEY: "key", OPENAI_BASE_URL: model.url }
      assert.match(await run(bin("node"), ["app.ts"], { cwd: app, env }), /It arrives on Friday/)
    })
    const examples = ["embedded", "mcp-tool", "peer"]
    const needs = examples.flatMap((example) => {
      const { dependencies } = JSON.parse(readFileSync(join(root, "examples", example, "package.json"), "utf8"))
      return Object.keys(dependencies)
    })
    await step("what the examples need", () => add([...new Set(needs)]))
    for (const example of examples) {
      const cwd = join(app, example)
      cpSync(join(root, "examples", example, "src"), join(cwd, "src"), { recursive: true })
      await step(`examples/${example}`, () => run(bin("node"), ["src/main.ts"], { cwd }))
    }
  } finally {
    model.close()
    registry.close()
  }
}

const operator = async () => {
  const config = join(folder, "gateway.yaml")
  writeFileSync(config, "server:\n  api_keys: { ann: $ANN_KEY, shop: $SHOP_KEY }\n  admin_callers: [ann]\n")
  const env = settings({ BOWLINE_CONFIG: config, ANN_KEY: "key-of-ann", SHOP_KEY: "key-of-shop" })
  const withKey = (key) => ({ headers: { authorization: `Bearer ${key}` } })
  await step("a wrong configuration is refused, with its place", async () => {
    const wrong = settings({ BOWLINE_CONFIG: config, ANN_KEY: "key-of-ann" })
    const { code, output } = await capture(bin("node"), [bowline, "check", "--demo"], { cwd: folder, env: wrong })
    assert.equal(code, 78)
    assert.match(output, /SHOP_KEY/)
  })
  await step("bowline check", () => run(bin("node"), [bowline, "check", "--demo"], { env }))
  const gateway = await step("the gateway listens", () => serve(env, "--demo"))
  await step("keys, readiness and metrics", async () => {
    const status = async (path, init) => (await fetch(gateway.url + path, init)).status
    assert.equal(await status("/plans"), 401)
    assert.equal(await status("/credentials", withKey("key-of-shop")), 403)
    assert.equal(await status("/credentials", withKey("key-of-ann")), 200)
    assert.equal(await status("/ready"), 200)
    assert.match(await (await fetch(`${gateway.url}/metrics`, withKey("key-of-ann"))).text(), /^bowline_plans\{/m)
  })
  await step("SIGTERM, and the exit code 0", async () => assert.equal(await gateway.stop(), 0))
}

try {
  for (const [who, hour] of Object.entries({
    "An app's developer": appDeveloper,
    "A developer with Effect": effectDeveloper,
    "An operator": operator
  })) {
    process.stdout.write(`${who}\n`)
    await hour()
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
