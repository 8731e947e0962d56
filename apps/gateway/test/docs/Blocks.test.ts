import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { say } from "@bowline/testing/provider/Turn"
import { builtIn } from "@bowline/runtime/prompt/PlannerText"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as Yaml from "effect/encoding/Yaml"
import { execFile } from "node:child_process"
import { once } from "node:events"
import { globSync, readFileSync } from "node:fs"
import type { AddressInfo, Server } from "node:net"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { start } from "../http/RunningGateway.ts"
import { bowline, start as startProcess } from "../plan/GatewayProcess.ts"
import { type Block, blocks, files, programs, root } from "./Blocks.ts"

const app = join(root, "apps/gateway")
const standard = "http://127.0.0.1:3774"

/** What is done with the blocks of each language, by the word behind it. */
const known: Readonly<Record<string, ReadonlyArray<string>>> = {
  ts: ["", "run", "file"],
  sh: ["", "desk"],
  json: ["plan", "configuration", "file"],
  yaml: ["configuration"],
  nginx: [""],
  python: [""],
  mermaid: [""],
  diff: [""],
  markdown: ["recipe", ""],
  text: [""]
}

const where = (language: string, word = "") =>
  blocks.filter((block) => block.language === language && block.word === word && block.reason === "")
const cases = (found: ReadonlyArray<Block>) => found.map((block) => [block.place, block] as const)

/** Runs a program with this input. Gives what it writes; fails if it does. */
const run = (
  command: string,
  args: ReadonlyArray<string>,
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {}
) => Effect.promise(async (signal) => (await promisify(execFile)(command, args, { ...options, signal })).stdout)

/** The configurations of the pages. What a page shows piece by piece is one file. */
const configurations = [...new Set(blocks.map(({ page }) => page))].flatMap((page) =>
  ["yaml", "json"].flatMap((language) => {
    const parts = where(language, "configuration").filter((block) => block.page === page)
    return parts.length === 0 ? [] : [{ page, language, code: parts.map(({ code }) => code).join("") }]
  })
)

/** A folder with a configuration, and with the files that the pages name. */
const withConfiguration = ({ code, language }: (typeof configurations)[number]) =>
  Effect.gen(function* () {
    const certificates = join(app, "test/egress/certificates")
    const pem = (name: string) => readFileSync(join(certificates, name), "utf8")
    const name = `gateway.${language}`
    const folder = yield* folderOf({
      [name]: code,
      "client.pem": pem("client.pem"),
      "client-key.pem": pem("client-key.pem"),
      "ca.pem": pem("authority.pem")
    })
    const variables = Array.from(code.matchAll(/\$\{?([A-Z][A-Z0-9_]*)/g), ([, variable = ""]) => variable)
    const values = Object.fromEntries(variables.map((variable) => [variable, `value-of-${variable}`]))
    return {
      ...values,
      ...("DATABASE_URL" in values && { DATABASE_URL: "postgres://bowline:secret@db/bowline" }),
      BOWLINE_CONFIG: join(folder, name)
    }
  })

const settings = {
  PATH: process.env["PATH"] ?? "",
  BOWLINE_PORT: "0",
  BOWLINE_DATA_DIR: "memory:",
  LOG_FORMAT: "json"
}

/** Whoever has installed the package, or has a checkout, can type it. */
const command = `bowline() { "${process.execPath}" "${bowline}" "$@"; }`
const asksGateway = (typed: string, url: string) => typed.includes(url) || /^bowline /m.test(typed)

describe("the blocks of the documentation", () => {
  it("are of a kind that is compiled, run or read here, or say why not", () => {
    assert.isAtLeast(blocks.length, 80)
    const unknown = blocks.filter(({ language, reason, word }) =>
      reason === "" ? !(known[language]?.includes(word) ?? false) : language === "text" || !(language in known)
    )
    assert.deepStrictEqual(
      unknown.map(({ language, place, word }) => `${place}: ${language} ${word}`),
      []
    )
    // Most of them are.
    assert.isAtMost(blocks.filter(({ reason }) => reason !== "").length, blocks.length / 2)
  })

  it.live.each(cases(where("ts", "run")))("answer, as programs: %s", ([, block]) =>
    Effect.gen(function* () {
      const configuration = configurations.find(({ page }) => page === block.page)
      const isConfigured = /preset: "/.test(block.code) && configuration !== undefined
      const environment = isConfigured ? yield* withConfiguration(configuration) : {}
      const { provider, url } = yield* start([[say("It will "), say("rain.")]], environment)
      const code = programs.find(({ place }) => place === block.place)?.code.replaceAll(standard, url) ?? ""
      const args = ["--input-type=module-typescript", "--eval", code]
      const written = yield* run(process.execPath, args, {
        cwd: app,
        env: { OPENAI_API_KEY: "key", OPENAI_BASE_URL: `${provider.url}/v1` }
      })
      // An app also logs.
      assert.match(written, /^It will rain\.$/m)
    })
  )

  it.live.each(configurations.map((configuration) => [configuration.page, configuration] as const))(
    "are configurations that the gateway takes: %s",
    ([, configuration]) =>
      Effect.gen(function* () {
        yield* fromEnvironment(yield* withConfiguration(configuration), false)
      })
  )

  it.each(cases(where("json", "plan")))("are requests that the gateway takes: %s", (_, { code }) => {
    Schema.decodeUnknownSync(PlanRequest)(JSON.parse(code), { onExcessProperty: "error" })
  })

  it("parse, where other programs read them", () => {
    for (const { code, language, reason } of blocks) {
      if (reason === "") continue
      if (language === "yaml") assert.isObject(Yaml.parse(code))
      if (language === "json") assert.isObject(JSON.parse(code))
    }
    for (const { code, place } of where("nginx")) {
      const lines = code.split("\n").map((line) => line.replace(/#.*/, "").trim())
      const odd = lines.filter((line) => line !== "" && !/[;{}]$/.test(line))
      assert.deepStrictEqual(odd, [], place)
      assert.strictEqual(code.split("{").length, code.split("}").length, place)
    }
    for (const { code, place } of where("markdown", "recipe")) {
      assert.match(code, /^---\nname: .+\ndescription: .+\n---\n/, place)
    }
    for (const { code, place } of where("markdown")) assert.include(builtIn, code.trim(), place)
  })

  it("name parts that are there, in diagrams", () => {
    const files = globSync("{packages,apps/gateway}/*/**/*.ts", {
      cwd: root,
      exclude: (name) => name === "node_modules"
    })
    const names = new Set(files.map((path) => path.split("/").at(-1)?.replace(/\.ts$/, "")))
    for (const { code, place } of where("mermaid")) {
      const unlabelled = code.replaceAll(/\["[^"]*"\]|--[^>]*-->/g, " ")
      const unknown = (unlabelled.match(/\b[A-Z][a-z]\w+/g) ?? []).filter((name) => !names.has(name))
      assert.deepStrictEqual(unknown, [], place)
    }
  })

  it.live.each(cases(where("diff")))("are changes that apply to the sources: %s", ([, { code }]) =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "change.diff": code })
      yield* run("git", ["apply", "--check", join(folder, "change.diff")], { cwd: root })
    })
  )

  it.live("are commands that a shell takes, of files that are there", () =>
    Effect.gen(function* () {
      const commands = blocks.filter(({ language }) => language === "sh")
      for (const { code, page, place } of commands) {
        yield* run("bash", ["-nc", code])
        const folders = [
          root,
          join(root, page, ".."),
          ...globSync("{packages,apps}/*", { cwd: root }).map((name) => join(root, name))
        ]
        for (const path of code.match(/(?<=\s)(?:apps|packages|test|src|deploy|charts)\/[\w./-]+/g) ?? []) {
          assert.isTrue(
            folders.some((folder) => globSync(`${path}*`, { cwd: folder }).length > 0),
            `${place}: ${path}`
          )
        }
      }
      for (const { code, place } of where("python")) {
        yield* run("python3", ["-c", "import ast, sys; ast.parse(sys.argv[1])", code]).pipe(
          Effect.catchDefect((error) =>
            (error as NodeJS.ErrnoException).code === "ENOENT" ? Effect.succeed("") : Effect.die(new Error(place))
          )
        )
      }
    })
  )

  it("are the files of an example, where a reader saves them", () => {
    const sources = globSync("examples/*/desk/*.{ts,json}", { cwd: root, exclude: (name) => name === "node_modules" })
    const known = new Set(sources.map((path) => readFileSync(join(root, path), "utf8")))
    assert.isAtLeast(files.length, 3)
    for (const { code, place } of files) assert.isTrue(known.has(code), place)
  })

  it.live("are what somebody can type, with the agents and servers of the tutorial", () =>
    Effect.gen(function* () {
      const desk = join(root, "examples/support-desk/desk")
      process.env["PORT"] = "0"
      const { server } = (yield* Effect.promise(() => import(join(desk, "policy.ts")))) as { readonly server: Server }
      yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
      if (!server.listening) yield* Effect.promise(() => once(server, "listening"))
      const written = readFileSync(join(desk, "gateway.json"), "utf8")
      const folder = yield* folderOf({ "gateway.json": written.replaceAll('"orders.ts"', `"${desk}/orders.ts"`) })
      const { url } = yield* startProcess({
        ...settings,
        BOWLINE_CONFIG: join(folder, "gateway.json"),
        POLICY_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
      })
      const said = []
      for (const { code } of where("sh", "desk")) {
        said.push(yield* run("bash", ["-euo", "pipefail", "-c", code.replaceAll(standard, url)], { cwd: folder }))
      }
      assert.match(said[0] ?? "", /a lamp for 49 EUR, delivered 12 days ago/)
      assert.match(said[1] ?? "", /Returns within 30 days/)
      assert.match(said[2] ?? "", /"tool":"payments_refund"[^]*"decision":"approve"[^]*Order 1042 is refunded/)
    })
  )

  it.live("are what somebody can type, with the gateway of the demo", () =>
    Effect.gen(function* () {
      const { url } = yield* startProcess(settings)
      for (const { code, page, place } of where("sh")) {
        if (page.startsWith("examples/")) {
          // `npm test` runs the examples, by the script of this name.
          assert.strictEqual(code.trim(), `cd ${dirname(page)} && npm start`, place)
          assert.include(readFileSync(join(root, dirname(page), "package.json"), "utf8"), '"start": ', place)
          continue
        }
        const typed = code.replaceAll(standard, url)
        assert.isTrue(asksGateway(typed, url), `${place}: what asks no gateway says why nothing runs it`)
        const env = { PATH: process.env["PATH"], BOWLINE_URL: url }
        assert.match(
          yield* run("bash", ["-euo", "pipefail", "-c", `${command}\n${typed}`], { cwd: root, env }),
          /plan_id|plan_[0-9a-f]{8}-|Demo answer|"(?:status|next_cursor|step_ms|jsonrpc|object|supportedInterfaces|rows|code)":|^exit code 1$|^bowline_\w+\{.*\} [1-9]/m,
          place
        )
      }
    })
  )
})
