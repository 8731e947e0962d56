import type { ConfiguredMcpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { Config, Context, Effect, Layer, Option, Schema } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { accessSync, constants } from "node:fs"
import { createServer } from "node:net"
import { delimiter, join } from "node:path"
import type { GatewayConfig } from "../../config/GatewayConfig.ts"
import * as Outbound from "../../egress/Outbound.ts"
import { type Check, fail, ok, unreachable, warn } from "./Finding.ts"

type Client = HttpClient.HttpClient

/** Listens for a moment, and says why it cannot. */
const tryToListen = (host: string, port: number) =>
  Effect.callback<void, NodeJS.ErrnoException>((resume) => {
    const server = createServer()
    server.once("error", (error) => resume(Effect.fail(error)))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resume(Effect.void)))
  })

/** An address at which this machine reaches what listens there. */
const reachable = (host: string): string => {
  if (host === "0.0.0.0") return "127.0.0.1"
  const address = host === "::" ? "::1" : host
  return address.includes(":") ? `[${address}]` : address
}

const Readiness = Schema.Struct({
  status: Schema.Union([Schema.Literal("ready"), Schema.Literal(503)]),
  failed: Schema.optionalKey(Schema.Array(Schema.String))
})
const decodeReadiness = Schema.decodeUnknownOption(Readiness)

const whoListens = (http: Client, host: string, port: number) =>
  http.execute(HttpClientRequest.get(`http://${reachable(host)}:${port}/ready`)).pipe(
    Effect.flatMap((response) => response.json),
    Effect.option,
    Effect.map((body) => {
      const readiness = Option.flatMap(body, decodeReadiness)
      if (Option.isNone(readiness)) {
        return fail(`another program listens on ${host}:${port}`, "Stop it, or choose another port with BOWLINE_PORT")
      }
      const { failed = [], status } = readiness.value
      return status === "ready"
        ? ok(`a gateway listens on ${host}:${port}, and is ready`)
        : fail(
            `the gateway on ${host}:${port} is not ready: ${failed.join(", ")}`,
            "See Readiness in docs/reference/http.md"
          )
    })
  )

const port = (http: Client, { host, port }: GatewayConfig["Service"]): Check => ({
  name: "port",
  find: tryToListen(host, port).pipe(
    Effect.as(ok(port === 0 ? `any port of ${host}` : `${host}:${port} is free`)),
    Effect.catch((error) => {
      if (error.code === "EADDRINUSE") return whoListens(http, host, port)
      const advice = "Choose an address of this machine with BOWLINE_HOST, and a port that the user may open"
      return Effect.succeed(fail(`${host}:${port} cannot be listened on (${error.code})`, advice))
    }),
    Effect.map((finding) => [finding])
  )
})

const count = (rules: ReadonlyArray<unknown>): string => (rules.length === 1 ? "1 rule" : `${rules.length} rules`)

const egress = ({ egress: { allow, allowsLocal, deny } }: GatewayConfig["Service"]): Check => ({
  name: "egress",
  find: Effect.sync(() => {
    const where = allowsLocal ? "public, loopback and private addresses" : "public addresses only"
    const detail = `callers reach ${where}, besides ${count(allow)} to allow and ${count(deny)} to deny`
    const isOpen = allow.some((rule) => (rule._tag === "Host" ? rule.pattern === "*" : rule.network[1] === 0))
    return [
      isOpen && !allowsLocal
        ? warn(detail, "A rule for every host lets callers reach your internal services: name the hosts that they need")
        : ok(detail)
    ]
  })
})

const proxies = Config.all(
  ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"]
    .flatMap((name) => [name, name.toLowerCase()])
    .map((name) => Config.option(Config.String(name)))
)

const proxy: Check = {
  name: "proxy",
  find: Effect.map(proxies, (found) =>
    found.some(Option.isSome)
      ? [
          warn(
            "the gateway uses no proxy, though the environment names one",
            "Let it connect directly to its providers and peers"
          )
        ]
      : []
  )
}

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Whether something answers HTTP there. It is asked without a credential, so what it answers says little. */
const answers = (http: Client, what: string, url: string) =>
  http.execute(HttpClientRequest.get(url)).pipe(
    Effect.map(({ status }) =>
      status >= 500 ? warn(`${what} answers ${status}`, "It has trouble: look at its log") : ok(`${what} answers`)
    ),
    Effect.catch((error) => Effect.succeed(unreachable(what, error)))
  )

/** As the gateway reaches it: with the TLS configuration of its host. */
const mcpUrl = Effect.fnUntraced(function* (url: string, { peerTls }: GatewayConfig["Service"]) {
  const context = yield* Layer.build(Outbound.layerAnywhere(peerTls))
  return yield* answers(Context.get(context, HttpClient.HttpClient), new URL(url).host, url)
}, Effect.scoped)

const mcpServer = (preset: string, server: ConfiguredMcpServer, config: GatewayConfig["Service"]): Check => ({
  name: preset === "default" ? `mcp ${server.name}` : `mcp ${preset}/${server.name}`,
  find: Effect.gen(function* () {
    if ("url" in server) return [yield* mcpUrl(server.url, config)]
    const { command } = server
    const { PATH = "" } = config.mcpServers.environment
    const places = command.includes("/") ? [command] : PATH.split(delimiter).map((folder) => join(folder, command))
    const found = places.find(isExecutable)
    return [
      found === undefined
        ? fail(
            `${command} is no program that this process may run`,
            "Install it, or correct its name; it is looked for in PATH"
          )
        : ok(`${found} is there; it is not started`)
    ]
  })
})

/** The collectors of the signals are mostly one. */
const telemetry = (http: Client, { telemetry: { exports } }: GatewayConfig["Service"]): Check => {
  const urls = Option.match(exports, {
    onNone: () => [],
    onSome: ({ urls }) => Object.values(urls).flatMap(Option.toArray)
  })
  const byHost = new Map(urls.map((url) => [new URL(url).host, url]))
  return {
    name: "telemetry",
    find: Effect.forEach(byHost, ([host, url]) => answers(http, host, url), { concurrency: "unbounded" })
  }
}

/** What the gateway listens on, and whom it and its callers may reach. */
export const networkChecks = (http: Client, config: GatewayConfig["Service"]): ReadonlyArray<Check> => [
  port(http, config),
  egress(config),
  proxy,
  ...Array.from(config.mcpServers.servers).flatMap(([preset, servers]) =>
    servers.map((server) => mcpServer(preset, server, config))
  ),
  telemetry(http, config)
]
