// The first hours of three people, one command after the other, without a network: somebody who writes an app in front of the gateway, somebody who runs plans in an
// app built on Effect, and somebody who operates the gateway. Each step says how long it took; one that fails ends with 1.
import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { bin, capture, environment, root } from "./setup.mjs"

const bowline = join(root, "apps/gateway/bin/bowline.mjs")
const folder = mkdtempSync(join(tmpdir(), "bowline-first-hour-"))
const settings = (more) => ({ PATH: environment().PATH, BOWLINE_PORT: "0", BOWLINE_DATA_DIR: "memory:", ...more })

const step = async (what, work) => {
  const since = performance.now()
  const found = await work()
  process.stdout.write(`  ${((performance.now() - since) / 1000).toFixed(1)} s  ${what}\n`)
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

const effectDeveloper = async () => {
  for (const example of ["embedded", "mcp-tool", "peer"]) {
    await step(`examples/${example}`, () => run(bin("node"), ["src/main.ts"], { cwd: join(root, "examples", example) }))
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
