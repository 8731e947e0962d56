import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { bowline } from "../cli/Bowline.ts"
import { folderOf } from "./file/ConfigFolder.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { start as startProcess } from "../plan/GatewayProcess.ts"
import { table, type SettingName } from "../../src/config/setting/Settings.ts"

/** The same setting by its variable, if it has one, and in the file. */
const everywhere = Effect.fnUntraced(function* (name: SettingName, value: string) {
  const { path, variable } = table[name]
  const byVariable = variable === undefined ? [] : [{ [variable]: value }]
  if (path === undefined) return byVariable
  const [section, key] = path
  return [...byVariable, yield* inFile({ [section]: { [key]: value } })]
})

const inFile = (content: object) =>
  Effect.map(folderOf({ "gateway.json": JSON.stringify(content) }), (folder) => ({
    BOWLINE_CONFIG: join(folder, "gateway.json")
  }))

const quiet: Script = () => [stall]
const hesitant: Script = () => [say("a"), stall]

describe("a gateway heeds", () => {
  it.live.each([
    ["firstTokenTimeout", "first_token", quiet, "provider_first_token_timeout"],
    ["idleTimeout", "idle", hesitant, "provider_idle_timeout"],
    ["attemptTimeout", "attempt", hesitant, "provider_attempt_timeout"]
  ] as const)("%s, in the environment, in the file, and at a provider of the file", ([name, timer, script, code]) =>
    Effect.gen(function* () {
      const provider = yield* (yield* Network).serve(yield* ChatHost.make(script))
      const ofProvider = yield* inFile({
        providers: [{ name: "openai", base_url: `${provider.url}/v1`, timeouts: { [timer]: "40ms" } }]
      })
      for (const environment of [...(yield* everywhere(name, "40ms")), { ...ofProvider, OPENAI_BASE_URL: "" }]) {
        const { url } = yield* start(script, { BOWLINE_MAX_RETRIES: "0", ...environment })
        const { body } = yield* post(`${url}/plan`, { question: "?" })
        assert.deepInclude(body["error"], { code })
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("maxPlans, in the environment and in the file", () =>
    Effect.gen(function* () {
      for (const environment of yield* everywhere("maxPlans", "1")) {
        const { url } = yield* start(quiet, environment)
        yield* Effect.forkScoped(post(`${url}/plan`, { question: "?" }))
        yield* Effect.repeat(send(`${url}/plans`), { until: ({ text }) => text.includes("plan_id") })
        const { body, headers, status } = yield* post(`${url}/plan`, { question: "?" })
        assert.deepStrictEqual([status, body["code"]], [503, "unavailable"])
        assert.match(headers.get("retry-after") ?? "", /^\d+$/)
      }
    }).pipe(Effect.scoped)
  )

  it.live("the keys of anthropic and of openrouter", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const anthropic = yield* network.serve(yield* MessagesHost.make(() => [say("a")]))
      const openrouter = yield* network.serve(yield* ChatHost.make(() => [say("a")]))
      const file = yield* inFile({ providers: [{ name: "openrouter", base_url: `${openrouter.url}/v1` }] })
      for (const [environment, host, header, key] of [
        [{ ANTHROPIC_API_KEY: "one", ANTHROPIC_BASE_URL: anthropic.url }, anthropic, "x-api-key", "one"],
        [{ ANTHROPIC_API_KEYS: "two,three", ANTHROPIC_BASE_URL: anthropic.url }, anthropic, "x-api-key", "two"],
        [{ ...file, OPENROUTER_API_KEY: "four" }, openrouter, "authorization", "Bearer four"],
        [{ ...file, OPENROUTER_API_KEYS: "five,six" }, openrouter, "authorization", "Bearer five"]
      ] as const) {
        const { url } = yield* start([], { OPENAI_BASE_URL: "", ...environment })
        assert.deepInclude((yield* post(`${url}/plan`, { question: "?" })).body, { state: "completed" })
        assert.strictEqual((yield* host.requests.all).at(-1)?.headers[header], key)
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("the format and the level of the log, in the environment and in the file", () =>
    Effect.gen(function* () {
      const links = { BOWLINE_DATA_DIR: "memory:", BOWLINE_SERVICE_HOST: "10.0.0.1" }
      const logs = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>>) {
        const { kill, lines } = yield* startProcess({ ...links, ...environment })
        yield* kill("SIGTERM")
        return lines.join("\n")
      }, Effect.scoped)
      const ofFile = yield* inFile({ log: { format: "pretty", level: "debug" } })
      const variables = { LOG_FORMAT: "pretty", LOG_LEVEL: "debug" }
      for (const text of [yield* logs({ ...ofFile, LOG_FORMAT: "" }), yield* logs(variables)]) {
        assert.notMatch(text, /^\{/)
        assert.include(text, "Ignored service links")
      }
      const usual = yield* logs({})
      assert.match(usual, /^\{/)
      assert.notInclude(usual, "Ignored service links")
    })
  )
})

describe("the command line heeds", () => {
  it.live("BOWLINE_API_KEY", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { BOWLINE_API_KEYS: "ann=right", BOWLINE_ADMIN_CALLERS: "ann" })
      const credentials = Effect.fnUntraced(function* (BOWLINE_API_KEY: string) {
        const { code, stderr } = yield* (yield* bowline(["credentials"], { BOWLINE_URL: url, BOWLINE_API_KEY })).ended
        return [code, stderr.split(":")[0]]
      }, Effect.scoped)
      assert.deepStrictEqual(yield* credentials("right"), [0, ""])
      assert.deepStrictEqual(yield* credentials("wrong"), [1, "unauthorized"])
    }).pipe(Effect.scoped)
  )
})
