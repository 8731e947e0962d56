import { CallerName } from "@bowline/domain/caller/CallerName"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Logger, References, Schedule } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as ConfigReload from "../../src/config/ConfigReload.ts"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../src/config/setting/ConfigProblem.ts"
import { bowline } from "../cli/Bowline.ts"
import { folderOf } from "./file/ConfigFolder.ts"
import { mutePort } from "../http/MutePort.ts"
import { payloads } from "../http/RunningGateway.ts"
import { get, start } from "../plan/GatewayProcess.ts"
import { askAndRead, gate } from "../plan/TroubledGateway.ts"

const open = "permissions: { anonymous: { tools: { deny: [none] } } }\n"
const closed = "permissions: { anonymous: { tools: { deny: ['*'] } } }\n"

/** A configuration with this file that can be looked at, and what is logged meanwhile. */
const watched = Effect.fnUntraced(function* (
  files: Readonly<Record<string, string>>,
  prepare: (folder: string) => void = () => {}
) {
  const folder = yield* folderOf(files)
  prepare(folder)
  const file = join(folder, "gateway.yaml")
  const config = yield* fromEnvironment({ BOWLINE_CONFIG: file }, false)
  const log: Array<unknown> = []
  const logger = Logger.make(({ fiber, message }) => {
    const { keys, problems } = fiber.getRef(References.CurrentLogAnnotations)
    const told = problems ?? keys
    log.push(told === undefined ? String(message) : [String(message), told])
  })
  const { look, reread } = yield* ConfigReload.make(config)
  const logged = Effect.provide(Logger.layer([logger]))
  return {
    config,
    file,
    folder,
    log,
    look: logged(look),
    reread: logged(reread),
    /** Looks until a change that nobody continues has been read. */
    settle: Effect.andThen(logged(look), logged(look)),
    mayCall: () => config.permissions.forCaller(CallerName.make("anonymous")).tool("tool")
  }
})

const replace = (file: string, text: string) => {
  writeFileSync(`${file}.new`, text)
  renameSync(`${file}.new`, file)
}

const overwrite = (text: string) => (file: string) => writeFileSync(file, text)

const replaceByPipe = (file: string) => {
  rmSync(file)
  execFileSync("mkfifo", [file])
}

/** As Kubernetes mounts a ConfigMap: the file is a link through a link to the folder with the current content. */
const mount = (folder: string, version: string, text: string) => {
  mkdirSync(join(folder, version))
  writeFileSync(join(folder, version, "gateway.yaml"), text)
  symlinkSync(version, join(folder, "..data.new"))
  renameSync(join(folder, "..data.new"), join(folder, "..data"))
}

describe("the configuration file of a running gateway", () => {
  it.live.each([
    ["written in place", (file: string) => writeFileSync(file, closed)],
    ["replaced by another file", (file: string) => replace(file, closed)],
    [
      "removed and written again",
      (file: string) => {
        rmSync(file)
        writeFileSync(file, closed)
      }
    ]
  ] as const)("is read again when it is %s", ([, change]) =>
    Effect.gen(function* () {
      const { file, log, mayCall, settle } = yield* watched({ "gateway.yaml": open })
      yield* settle
      assert.isTrue(mayCall())
      change(file)
      yield* settle
      assert.isFalse(mayCall())
      yield* settle
      assert.deepStrictEqual(log, ["configuration_reread"])
    }).pipe(Effect.scoped)
  )

  it.live("is read again when a link on the way to it changes, as in a volume of Kubernetes", () =>
    Effect.gen(function* () {
      const { folder, log, mayCall, settle } = yield* watched({}, (folder) => {
        mount(folder, "..1", open)
        symlinkSync("..data/gateway.yaml", join(folder, "gateway.yaml"))
      })
      mount(folder, "..2", closed)
      yield* settle
      assert.isFalse(mayCall())
      assert.deepStrictEqual(log, ["configuration_reread"])
    }).pipe(Effect.scoped)
  )

  it.live("holds only once nobody writes to it any more: half a file may permit more than the whole one", () =>
    Effect.gen(function* () {
      const { file, log, look, mayCall } = yield* watched({ "gateway.yaml": closed })
      for (const text of ["", "# Permissions\n", "# Permissions\nmodels: {}\n"]) {
        writeFileSync(file, text)
        yield* look
        assert.isFalse(mayCall())
      }
      writeFileSync(file, `# Permissions\nmodels: {}\n${closed}# the end\n`)
      yield* look
      yield* look
      assert.isFalse(mayCall())
      assert.deepStrictEqual(log, ["configuration_reread"])
    }).pipe(Effect.scoped)
  )

  it.live("does not hold if somebody writes to it while it is read", () =>
    Effect.gen(function* () {
      const { config, file, mayCall } = yield* watched({ "gateway.yaml": closed })
      writeFileSync(file, "# Permissions\n")
      const reread = Effect.tap(config.reread, () => Effect.sync(() => writeFileSync(file, closed)))
      const { look } = yield* ConfigReload.make({ files: config.files, reread })
      writeFileSync(file, "# Permissions")
      yield* look
      yield* look
      assert.isFalse(mayCall())
    }).pipe(Effect.scoped)
  )

  it.live.each([
    ["is empty", overwrite(""), "It is empty. Expected settings, or {} for none"],
    ["cannot be parsed", overwrite("permissions: {"), "gateway.yaml: "],
    [
      "has a key that does not exist",
      overwrite(`${open}server: { prot: 1 }`),
      "gateway.yaml server.prot: There is no such key"
    ],
    [
      "has permissions for nobody",
      overwrite("permissions: { ann: {} }"),
      "gateway.yaml permissions.ann: Expected the name of a caller"
    ],
    ["is gone", (file: string) => rmSync(file), "gateway.yaml: It does not exist"],
    ["has become a pipe", replaceByPipe, "gateway.yaml: It is not a file"],
    ["is too large", (file: string) => truncateSync(file, 1_048_577), "gateway.yaml: It has more than 1048576 bytes"]
  ] as const)("is reported once and changes nothing when it %s", ([, spoil, expected]) =>
    Effect.gen(function* () {
      const { file, log, mayCall, settle } = yield* watched({ "gateway.yaml": closed })
      spoil(file)
      yield* settle
      yield* settle
      assert.isFalse(mayCall())
      const [[message, problems] = []] = log as ReadonlyArray<readonly [string, ReadonlyArray<string>]>
      assert.strictEqual(message, "configuration_unusable")
      assert.lengthOf(log, 1)
      assert.lengthOf(problems ?? [], 1)
      assert.include(problems?.[0], expected)
      replace(file, open)
      yield* settle
      assert.isTrue(mayCall())
      assert.deepStrictEqual(log.slice(1), ["configuration_reread"])
    }).pipe(Effect.scoped)
  )

  it.live("leaves its permissions behind when it is removed from the working directory", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "bowline.config.yaml": closed })
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          const before = process.cwd()
          process.chdir(folder)
          return before
        }),
        (before) => Effect.sync(() => process.chdir(before))
      )
      const config = yield* fromEnvironment({}, false)
      rmSync("bowline.config.yaml")
      const { problems } = yield* config.reread
      assert.deepStrictEqual(problems.map(formatProblem), ["bowline.config.yaml: The file is gone"])
    }).pipe(Effect.scoped)
  )

  it.live("names the keys whose change needs a restart, and takes over the others", () =>
    Effect.gen(function* () {
      const provider = "name: local, wire: openai-chat, base_url: http://127.0.0.1:9/v1"
      const started = `providers: [{ ${provider}, models: { a: {} }, headers: { x: planted-secret } }]\n`
      const { config, file, log, mayCall, settle } = yield* watched({ "gateway.yaml": started + open })
      const { plans } = config
      assert.deepStrictEqual(["local/a", "local/b"].map(plans.allowsModel), [true, false])
      const more = `providers: [{ ${provider}, models: { a: { context_window: 7000 }, b: {} }, headers: { x: planted-secret } }]\n`
      writeFileSync(file, `${more}models: { c: { context_window: 9000 } }\n${closed}`)
      yield* settle
      assert.deepStrictEqual(log.splice(0), ["configuration_reread"])
      assert.deepStrictEqual(["local/a", "local/b", "new/b"].map(plans.allowsModel), [true, true, false])
      assert.deepStrictEqual(plans.models().exact.get("local/a"), { contextWindow: 7_000 })
      assert.deepStrictEqual(plans.models().named.get("c"), { contextWindow: 9_000 })
      assert.isFalse(mayCall())
      writeFileSync(
        file,
        `${more.replace("planted-secret", "other-secret").replace("name:", "timeouts: { idle: 1s }, name:")}
server: { port: 9, api_keys: { ann: planted-secret } }
permissions: { "*": {} }
budgets: { ann: { tokens_per_day: 5 } }
mcp_servers: [{ name: files, command: planted-secret }]
agents: [{ name: bob, endpoint: "http://127.0.0.1:9/" }]
presets: { knots: { instructions: planted-secret } }
`
      )
      yield* settle
      assert.deepStrictEqual(log, [
        "configuration_reread",
        [
          "configuration_needs_restart",
          ["server.port", "server.api_keys", "providers", "agents", "mcp_servers", "presets", "budgets"]
        ]
      ])
      assert.isTrue(mayCall())
      assert.strictEqual(plans.budgetOf(CallerName.make("ann")), undefined)
    }).pipe(Effect.scoped)
  )

  it.live("is read again when a certificate that it names is renewed", () =>
    Effect.gen(function* () {
      const pem = (name: string) => join(import.meta.dirname, `../egress/certificates/${name}.pem`)
      const peers = "peers: { hosts: { peer.example: { tls: { ca: ca.pem } } } }"
      const { config, folder, log, settle } = yield* watched({ "gateway.yaml": peers }, (folder) =>
        symlinkSync(pem("authority"), join(folder, "ca.pem"))
      )
      const before = config.peerTls().get("peer.example")?.ca
      symlinkSync(pem("stranger"), join(folder, "ca.new"))
      renameSync(join(folder, "ca.new"), join(folder, "ca.pem"))
      yield* settle
      assert.deepStrictEqual(log, ["configuration_reread"])
      assert.notStrictEqual(config.peerTls().get("peer.example")?.ca, before)
    }).pipe(Effect.scoped)
  )

  it.live("is reported and changes nothing when a certificate that it names has become a pipe", () =>
    Effect.gen(function* () {
      const ca = join(import.meta.dirname, "../egress/certificates/authority.pem")
      const peers = "peers: { hosts: { peer.example: { tls: { ca: ca.pem } } } }"
      const { config, folder, log, settle } = yield* watched({
        "gateway.yaml": peers,
        "ca.pem": readFileSync(ca, "utf8")
      })
      const before = config.peerTls()
      replaceByPipe(join(folder, "ca.pem"))
      yield* settle
      const place = 'gateway.yaml peers.hosts["peer.example"].tls.ca'
      assert.deepStrictEqual(log, [
        ["configuration_unusable", [`${place}: Expected PEM, or a file that has it. It is not a file`]]
      ])
      assert.strictEqual(config.peerTls(), before)
    }).pipe(Effect.scoped)
  )

  it.live("is read at once when somebody asks for it", () =>
    Effect.gen(function* () {
      const { file, log, mayCall, reread, settle } = yield* watched({ "gateway.yaml": open })
      writeFileSync(file, closed)
      yield* reread
      assert.isFalse(mayCall())
      yield* settle
      assert.deepStrictEqual(log, ["configuration_reread"])
    }).pipe(Effect.scoped)
  )
})

/** A gateway of its own process with this file and a scripted provider. */
const begin = Effect.fnUntraced(function* (text: string, script: Script) {
  const network = yield* Network
  const provider = yield* network.serve(yield* ChatHost.make(script))
  const file = join(yield* folderOf({ "gateway.yaml": text }), "gateway.yaml")
  const gateway = yield* start({
    BOWLINE_CONFIG: file,
    BOWLINE_DATA_DIR: "memory:",
    BOWLINE_MODEL: "openai/scripted",
    OPENAI_BASE_URL: `${provider.url}/v1`
  })
  const logged = (message: string) =>
    Effect.repeat(
      Effect.sync(() => gateway.lines.filter((line) => line.includes(message))),
      { until: (lines) => lines.length > 0, schedule: Schedule.spaced("20 millis") }
    ).pipe(Effect.tap(() => Effect.sync(() => gateway.lines.splice(0))))
  return { ...gateway, file, logged, provider }
}, Effect.provide(LoopbackNetwork.layer))

describe("a gateway whose file changes", () => {
  it.live("forbids at once, on SIGHUP, what a running plan was offered and has not called yet", () =>
    Effect.gen(function* () {
      const { open, wait } = gate()
      const { file, logged, signal, url } = yield* begin("permissions: { anonymous: {} }", (asked) =>
        results(asked).length === 0 ? [say("Wait"), wait, callTool("bob_pay", { input: "7" })] : [say("ok")]
      )
      const agents = [{ name: "bob", endpoint: "http://127.0.0.1:9/", skills: [{ id: "pay" }] }]
      const { reading } = yield* askAndRead(url, { question: "?", agents }, "Wait")
      writeFileSync(file, "permissions: { anonymous: { tools: { deny: ['*_pay'] } } }")
      yield* signal("SIGHUP")
      yield* logged("configuration_reread")
      yield* open
      const text = yield* Fiber.join(reading)
      assert.deepInclude(payloads(text, "task.finished")[0], { state: "rejected" })
      assert.match(text, /^event: final$/m)
    }).pipe(Effect.scoped)
  )

  it.live("reads it on a SIGHUP that comes while the gateway starts, which does not end it", () =>
    Effect.gen(function* () {
      const { asked, port } = yield* mutePort
      const { child, output } = yield* bowline(["serve", "--demo"], {
        DATABASE_URL: `postgres://ann@127.0.0.1:${port}/a`
      })
      yield* asked
      child.kill("SIGHUP")
      yield* Effect.repeat(
        Effect.sync(() => output.stderr),
        {
          until: (lines) => lines.includes("configuration_reread") || child.signalCode !== null,
          schedule: Schedule.spaced("20 millis")
        }
      )
      assert.isNull(child.signalCode)
    }).pipe(Effect.scoped)
  )

  it.live("lets nobody use a preset that the file no longer has, whoever might use it before", () =>
    Effect.gen(function* () {
      const presets = "presets: { knots: { description: of knots }, internal: { description: of bolts } }\n"
      const denied = "permissions: { anonymous: { presets: { deny: [internal] } } }\n"
      const { file, logged, signal, url } = yield* begin(presets + denied, () => [say("ok")])
      const listed = Effect.map(get(url, "/presets"), (answer) =>
        (answer["presets"] as ReadonlyArray<{ readonly name: string }>).map(({ name }) => name)
      )
      const reread = Effect.fnUntraced(function* (text: string) {
        writeFileSync(file, text)
        yield* signal("SIGHUP")
        yield* logged("configuration_reread")
      })
      assert.deepStrictEqual(yield* listed, ["knots"])
      for (const text of ["presets: { knots: {} }\npermissions: { anonymous: {} }", "presets: { knots: {} }"]) {
        yield* reread(text)
        assert.deepStrictEqual(yield* listed, ["knots"])
        const refused = yield* get(url, "/plan", { question: "?", preset: "internal" })
        assert.include(refused, { status: 400, code: "invalid_request" })
        assert.include(yield* get(url, "/plan", { question: "?" }), { state: "completed" })
      }
      yield* reread("{}")
      assert.deepStrictEqual(yield* listed, [])
      yield* reread(presets)
      assert.deepStrictEqual(yield* listed, ["knots", "internal"])
    }).pipe(Effect.scoped)
  )

  it.live("notices by itself, and shows the next plan's model as much as it has room for now", () =>
    Effect.gen(function* () {
      const { file, logged, provider, url } = yield* begin("models: { scripted: { context_window: 100000 } }", () => [
        say("ok")
      ])
      const history = { question: "x".repeat(40_000) }
      assert.include(yield* get(url, "/plan", history), { state: "completed" })
      writeFileSync(file, "models: { scripted: { context_window: 2 } }")
      const [unusable] = yield* logged("configuration_unusable")
      assert.include(unusable, "gateway.yaml models.scripted.context_window: Expected a value between 100 and")
      writeFileSync(file, "models: { scripted: { context_window: 2000 } }\nplans: { max_retries: 1 }")
      const [waits] = yield* logged("configuration_needs_restart")
      assert.include(waits, "plans.max_retries")
      const { error } = yield* get(url, "/plan", history)
      assert.deepInclude(error, { code: "context_overflow" })
      assert.lengthOf(yield* provider.requests.all, 1)
    }).pipe(Effect.scoped)
  )
})
