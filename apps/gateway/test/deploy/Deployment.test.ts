import { assert, describe, it } from "@effect/vitest"
import { Effect, Record, Schema } from "effect"
import * as Yaml from "effect/encoding/Yaml"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { table } from "../../src/config/setting/Settings.ts"
import { send, start } from "../http/RunningGateway.ts"
import { read, root, stages } from "./Dockerfile.ts"
import { byKind, podOf } from "./Manifests.ts"

const Service = Schema.Struct({
  image: Schema.String,
  restart: Schema.String,
  stop_grace_period: Schema.String,
  environment: Schema.Record(Schema.String, Schema.String),
  volumes: Schema.optionalKey(Schema.Array(Schema.String)),
  env_file: Schema.optionalKey(Schema.String)
})
const Compose = Schema.Struct({ services: Schema.Record(Schema.String, Service) })

const { services } = Schema.decodeUnknownSync(Compose)(Yaml.parse(read("compose.yaml")))
const own = "${GATEWAY_IMAGE:-bowline}"
const replicas = Object.values(services).filter(({ image }) => image === own)
const unit = read("deploy/systemd/bowline.service")
const page = "docs/operations/deploy.md"
const caddyfile = read("deploy/caddy/Caddyfile")
const image = stages(read("Dockerfile")).flat()
const [container] = podOf(byKind(read("charts/bowline.yaml"))).containers
const textOf = (name: string) => image.findLast((instruction) => instruction.name === name)?.text ?? ""

/** Variables in the form that systemd, Compose and Docker share. */
const assignments = (text: string) =>
  Object.fromEntries(Array.from(text.matchAll(/^#?([A-Z_]+)=(.*)$/gm), ([, name = "", value = ""]) => [name, value]))

const example = assignments(read("deploy/bowline.env.example"))
const [imageVariables, unitVariables] = [textOf("ENV"), /^Environment=(.*)$/m.exec(unit)?.[1] ?? ""].map((text) =>
  assignments(text.replaceAll(" ", "\n"))
)

/** What an operator writes. */
const filled = {
  ...example,
  BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob",
  BOWLINE_ADMIN_CALLERS: "ann",
  BOWLINE_PUBLIC_HOSTS: "bowline.example",
  BOWLINE_SECRET_KEY: Buffer.alloc(32, 1).toString("base64"),
  OPENAI_API_KEY: "key",
  ANTHROPIC_API_KEY: "key",
  POSTGRES_PASSWORD: "secret"
}

const [replica = { environment: {}, env_file: "" }] = replicas
const substitute = (text: string) =>
  text.replaceAll(/\$\{([A-Z_]+)[^}]*\}/g, (_, name: string) => new Map(Object.entries(filled)).get(name) ?? "")

/** What is no setting of the gateway, and who reads it. */
const others = {
  NODE_ENV: "node",
  NODE_COMPILE_CACHE: "node",
  POSTGRES_USER: "postgres",
  POSTGRES_PASSWORD: "postgres",
  SITE_ADDRESS: "Caddy",
  GATEWAY_IMAGE: "Compose",
  BOWLINE_API_KEY: "the command line",
  NODE_OPTIONS: "node",
  POD_IP: "other variables"
}

describe("the files of a deployment", () => {
  it("set only variables that somebody reads", () => {
    const known = new Set([...Object.values(table).map(({ variable }) => variable), ...Object.keys(others)])
    const set = [
      example,
      imageVariables,
      unitVariables,
      ...Object.values(services).map(({ environment }) => environment),
      Object.fromEntries(container.env.map(({ name }) => [name, ""]))
    ]
    const unknown = set.flatMap((variables) => Object.keys(variables ?? {})).filter((name) => !known.has(name))
    assert.deepStrictEqual(unknown, [])
  })

  it.effect(
    "configure a gateway that starts, on Postgres with Compose and on the embedded database of the default folder without",
    () =>
      Effect.gen(function* () {
        const inCompose = { ...imageVariables, ...filled, ...Record.map(replica.environment, substitute) }
        const compose = yield* fromEnvironment(inCompose, false)
        assert.strictEqual(compose.database._tag, "Postgres")
        assert.strictEqual(compose.host, "0.0.0.0")
        assert.deepStrictEqual([...compose.ignored, ...compose.overruled], [])
        // A folder in the environment would win over a database in the file.
        for (const variables of [imageVariables, unitVariables]) {
          const embedded = yield* fromEnvironment({ ...filled, ...variables, DATABASE_URL: "" }, false)
          assert.deepStrictEqual(embedded.database, { _tag: "Embedded", dataDir: ".bowline/data" })
          assert.deepStrictEqual([...embedded.ignored, ...embedded.overruled], [])
        }
      })
  )

  it.live("ask for the health of a gateway on paths and a port that it answers on", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const [, path = ""] = /(\/\w+)`/.exec(textOf("HEALTHCHECK")) ?? []
      const [, proxied = ""] = /health_uri (\S+)/.exec(caddyfile) ?? []
      const { livenessProbe, ports, readinessProbe, startupProbe } = container
      const probed = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet)
      assert.deepStrictEqual(
        probed.map((get) => ports.find(({ name }) => name === get.port)?.containerPort),
        probed.map(() => Number(table.port.default))
      )
      for (const one of [path, proxied, ...probed.map((get) => get.path)])
        assert.strictEqual((yield* send(`${url}${one}`)).status, 200, one)
      const port = table.port.default
      assert.strictEqual(textOf("EXPOSE"), port)
      assert.include(textOf("HEALTHCHECK"), `|| ${port}`)
      const upstreams = Object.keys(services).filter((name) => services[name]?.image === own)
      assert.include(caddyfile, upstreams.map((name) => `${name}:${port}`).join(" "))
    }).pipe(Effect.scoped)
  )

  it("close idle connections before a gateway does", () => {
    const [, seconds] = /^\s*keepalive (\d+)s$/m.exec(caddyfile) ?? []
    assert.isBelow(Number(seconds), parseInt(table.keepAliveTimeout.default ?? ""))
  })

  it("set every variable that the page says is in .env", () => {
    const named = Array.from(read(page).matchAll(/([A-Z_]+) in \.env/g), ([, name = ""]) => name)
    assert.isNotEmpty(named)
    assert.deepStrictEqual(
      named.filter((name) => !(name in example)),
      []
    )
  })

  it("let a gateway shut down: the grace, and half a minute more", () => {
    const grace = 30
    assert.strictEqual(table.shutdownGrace.default, `${grace}s`)
    for (const { stop_grace_period } of Object.values(services)) {
      assert.isAtLeast(parseInt(stop_grace_period), grace + 30)
    }
    assert.isAtLeast(parseInt(/^TimeoutStopSec=(.*)s$/m.exec(unit)?.[1] ?? ""), grace + 30)
  })

  it("start the gateway again however long its database is away, but not with a configuration that cannot be used", () => {
    assert.match(unit, /^StartLimitIntervalSec=0$/m)
    assert.match(unit, /^RestartPreventExitStatus=78$/m)
    for (const { restart } of replicas) assert.strictEqual(restart, "unless-stopped")
  })

  it("name files and versions that exist", () => {
    const bound = Object.values(services).flatMap(({ volumes = [] }) =>
      volumes.filter((volume) => volume.startsWith("./"))
    )
    const [, program = ""] = /\/opt\/bowline\/(\S+)/.exec(unit) ?? []
    for (const path of [...bound.map((volume) => volume.split(":")[0] ?? ""), program]) {
      assert.isTrue(existsSync(join(root, path)), path)
    }
    assert.include(read(".gitignore").split("\n"), replica.env_file)
    const [pnpm = ""] = /pnpm@[\d.]+/.exec(read(".ci/setup.mjs")) ?? []
    const install = /npx -y pnpm@\S+ install .*@bowline\/gateway\.\.\./.exec(read("Dockerfile"))?.[0] ?? ""
    assert.isTrue(install.startsWith(`npx -y ${pnpm} `), install)
    const { scripts } = JSON.parse(read("package.json")) as { readonly scripts: object }
    for (const [, script = ""] of read(page).matchAll(/npm run ([a-z:-]+)/g)) assert.property(scripts, script)
    const [, major = ""] = /^  node: (\d+)/m.exec(read("pnpm-workspace.yaml")) ?? []
    assert.include(read("Dockerfile"), `FROM node:${major}-`)
  })
})
