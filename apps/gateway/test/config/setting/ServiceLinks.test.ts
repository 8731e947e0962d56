import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { fromEnvironment } from "../../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../../src/config/setting/ConfigProblem.ts"
import { folderOf } from "../file/ConfigFolder.ts"
import { start } from "../../plan/GatewayProcess.ts"

/** What Kubernetes sets for a Service with two ports. */
const linksOf = (service: string, host: string, url: string) => ({
  [`${service}_SERVICE_HOST`]: host,
  [`${service}_SERVICE_PORT`]: "3774",
  [`${service}_SERVICE_PORT_HTTP`]: "3774",
  [`${service}_SERVICE_PORT_DNS_UDP`]: "53",
  [`${service}_PORT`]: `tcp://${url}:3774`,
  [`${service}_PORT_3774_TCP`]: `tcp://${url}:3774`,
  [`${service}_PORT_3774_TCP_PROTO`]: "tcp",
  [`${service}_PORT_3774_TCP_PORT`]: "3774",
  [`${service}_PORT_3774_TCP_ADDR`]: host,
  [`${service}_PORT_53_UDP`]: `udp://${url}:53`,
  [`${service}_PORT_53_UDP_PROTO`]: "udp",
  [`${service}_PORT_53_UDP_PORT`]: "53",
  [`${service}_PORT_53_UDP_ADDR`]: host
})

const links = {
  ...linksOf("BOWLINE", "10.96.0.17", "10.96.0.17"),
  ...linksOf("BOWLINE_DB_2", "fd00::17", "[fd00::17]")
}

describe("Kubernetes service links", () => {
  it.live("do not keep the gateway from starting, and stand in one line at debug level", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "gateway.yaml": "server: { port: 0 }" })
      const { kill, lines, url } = yield* start({
        ...links,
        BOWLINE_CONFIG: join(folder, "gateway.yaml"),
        BOWLINE_DATA_DIR: "memory:",
        LOG_LEVEL: "debug"
      })
      // The link in BOWLINE_PORT does not count as set: the port is the file's.
      assert.notStrictEqual(new URL(url).port, "3774")
      yield* kill("SIGTERM")
      const told = lines.filter((line) => line.includes("service links"))
      assert.lengthOf(told, 1)
      for (const name of Object.keys(links)) assert.include(told[0], name)
      assert.match(told[0] ?? "", /"DEBUG"/i)
    })
  )

  it.effect("are told by their values, too: every other variable that does not exist is an error", () =>
    Effect.gen(function* () {
      const wrong = {
        BOWLINE_PORT: "tcp://10.96.0.17",
        BOWLINE_SERVICE_HOST: "bowline.internal",
        BOWLINE_SERVICE_PORT: "many",
        BOWLINE_PORT_3774: "tcp://10.96.0.17:3774",
        BOWLINE_PORT_3774_TCP: "3774",
        BOWLINE_PORT_3774_TCP_PROTO: "http",
        BOWLINE_PORT_3774_TCP_ADDR: "x",
        BOWLINE_X_SERVICE_HOSTS: "10.96.0.17"
      }
      const { problems } = yield* Effect.flip(fromEnvironment(wrong, false))
      assert.deepStrictEqual(
        problems.map((problem) =>
          formatProblem(problem)
            .replace(/ Did you mean \w+\?$/, "")
            .replace(/variable\.$/, "variable")
        ),
        Object.keys(wrong).map(
          (name) =>
            `${name}: ${name === "BOWLINE_PORT" ? "Expected an integer between 0 and 65535" : "There is no such variable"}`
        )
      )
    })
  )

  it.effect("can be used by the file", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({
        "gateway.yaml": "database: { url: postgres://u:p@$BOWLINE_PG_SERVICE_HOST/bowline }"
      })
      const { database } = yield* fromEnvironment(
        { BOWLINE_CONFIG: join(folder, "gateway.yaml"), BOWLINE_PG_SERVICE_HOST: "10.96.0.18", OPENAI_API_KEY: "key" },
        false
      )
      assert.strictEqual(database._tag, "Postgres")
    })
  )
})
