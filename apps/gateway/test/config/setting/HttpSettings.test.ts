import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { fromEnvironment } from "../../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../../src/config/setting/ConfigProblem.ts"
import { load, problems } from "../file/ConfigFolder.ts"

const hosts = "Expected a comma list of hosts without ports, such as bowline.example"
const origins =
  "Expected a comma list of origins such as https://app.example, as browsers send them: in lower case, without a path, a usual port or a *"
const rate = "Expected requests and a time of at least 1s, such as 600/1m"

describe("the settings of the server", () => {
  it.effect("are read in one spelling, and printed as they were written", () =>
    Effect.gen(function* () {
      const text = `
server: { public_hosts: [Bowline.Example., "[2001:DB8::1]", 10.0.0.1], rate_limit: 60 / 2m }
cors: { origins: ["https://app.example:8443", "chrome-extension://abc", http://localhost:5173] }
http: { max_connections: 7, headers_timeout: 2s, request_timeout: 3s, keep_alive_timeout: 4s }
`
      const { effective, entry, http, rateLimit } = yield* load("gateway.yaml", text, { OPENAI_API_KEY: "key" })
      assert.deepStrictEqual(entry, {
        publicHosts: ["bowline.example", "2001:db8::1", "10.0.0.1"],
        anyHost: false,
        corsOrigins: ["https://app.example:8443", "chrome-extension://abc", "http://localhost:5173"]
      })
      assert.deepStrictEqual(rateLimit, [60, Duration.minutes(2)])
      assert.deepStrictEqual(
        [
          http.maxConnections,
          ...[http.headersTimeout, http.requestTimeout, http.keepAliveTimeout].map(Duration.toMillis)
        ],
        [7, 2_000, 3_000, 4_000]
      )
      assert.deepNestedInclude(effective, { "server.rate_limit": "60 / 2m", "http.max_connections": "7" })
      const usual = yield* fromEnvironment({}, false)
      assert.deepNestedInclude(usual.effective, { "server.rate_limit": null, "http.request_timeout": "5m" })
    })
  )

  it.effect("name what is wrong with them", () =>
    Effect.gen(function* () {
      const wrong = [
        ["BOWLINE_PUBLIC_HOSTS", hosts, ["https://a.example", "a.example:443", "*.example", "a,,b", "[::1", "a b"]],
        ["BOWLINE_RATE_LIMIT", rate, ["600", "0/1m", "1/0s", "1/500ms", "600/m", "600/1m/2", "-1/1m", "off"]]
      ] as const
      for (const [name, expected, texts] of wrong) {
        for (const text of texts) {
          const { problems } = yield* Effect.flip(fromEnvironment({ [name]: text }, false))
          assert.deepStrictEqual(problems.map(formatProblem), [`${name}: ${expected}`], text)
        }
      }
      for (const origin of [
        "*",
        "null",
        "app.example",
        "https://app.example/",
        "https://App.example",
        "https://*.app.example",
        "https://app.example:443",
        "https://u@app.example"
      ]) {
        assert.deepStrictEqual(
          yield* problems("gateway.yaml", `cors: { origins: ["${origin}"] }`),
          [`gateway.yaml cors.origins: ${origins}`],
          origin
        )
      }
    })
  )
})
