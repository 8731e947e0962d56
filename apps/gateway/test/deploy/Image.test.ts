import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { accessSync, constants, existsSync, mkdtempSync, rmSync } from "node:fs"
import { cp } from "node:fs/promises"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { send } from "../http/RunningGateway.ts"
import { get, start } from "../plan/GatewayProcess.ts"
import { copySources, read, stages } from "./Dockerfile.ts"

const [console = [], build = [], image = []] = stages(read("Dockerfile"))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "bowline-image-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const PATH = `${dirname(process.execPath)}${delimiter}${process.env["PATH"] ?? ""}`

/** Does in the folder what a stage does in its working directory. The packages come from the store of the checkout's install. */
const buildIn = Effect.fnUntraced(function* (app: string, stage: typeof build, consoleFolder: string = app) {
  const env = { ...process.env, PATH, CI: "true", npm_config_prefer_offline: "true" }
  for (const { name, text } of stage) {
    const [, from, to] = /^--from=console \/app\/(\S+) (\S+)$/.exec(text) ?? []
    if (from !== undefined && to !== undefined) {
      yield* Effect.promise(() => cp(join(consoleFolder, from), join(app, to), { recursive: true }))
    } else if (name === "COPY") yield* Effect.promise(() => copySources(text, app))
    if (name === "RUN") yield* Effect.sync(() => execFileSync("sh", ["-c", text], { cwd: app, env, stdio: "pipe" }))
  }
})

it.live(
  "what the image is built from serves a plan and the console without the packages of development, and ends at SIGTERM",
  () =>
    Effect.gen(function* () {
      const app = yield* folder
      const consoleFolder = yield* folder
      yield* buildIn(consoleFolder, console)
      yield* buildIn(app, build, consoleFolder)
      for (const path of [
        "node_modules/.bin/node",
        "node_modules/vitest",
        "apps/gateway/test",
        "packages/runtime/test"
      ]) {
        assert.isFalse(existsSync(join(app, path)), path)
      }
      const link = image.find(({ text }) => text.startsWith("ln -s"))?.text ?? ""
      const program = link.replace(/^ln -s \/app\/(\S+) .*$/, `${app}/$1`)
      accessSync(program, constants.X_OK)

      const gateway = yield* start({ NODE_ENV: "production", BOWLINE_DATA_DIR: "memory:" }, program)
      const plan = yield* get(gateway.url, "/plan", { question: "What is a bowline?" })
      assert.strictEqual(plan["state"], "completed")
      const page = yield* send(gateway.url, { headers: { accept: "text/html" } })
      const [, script = ""] = /src="(\/assets\/[^"]+)"/.exec(page.text) ?? []
      assert.strictEqual((yield* send(gateway.url + script)).status, 200)
      assert.strictEqual(yield* gateway.kill("SIGTERM"), 0)
    }).pipe(Effect.scoped)
)
