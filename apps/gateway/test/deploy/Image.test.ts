import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { accessSync, constants, existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { get, start } from "../plan/GatewayProcess.ts"
import { copySources, read, stages } from "./Dockerfile.ts"

const [build = [], image = []] = stages(read("Dockerfile"))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "bowline-image-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const PATH = `${dirname(process.execPath)}${delimiter}${process.env["PATH"] ?? ""}`

/** Does in the folder what the first stage does in its working directory. The packages come from the store of the checkout's install. */
const buildIn = Effect.fnUntraced(function* (app: string) {
  const env = { ...process.env, PATH, CI: "true", npm_config_prefer_offline: "true" }
  for (const { name, text } of build) {
    if (name === "COPY") yield* Effect.promise(() => copySources(text, app))
    if (name === "RUN") yield* Effect.sync(() => execFileSync("sh", ["-c", text], { cwd: app, env, stdio: "pipe" }))
  }
})

it.live("what the image is built from serves a plan without the packages of development, and ends at SIGTERM", () =>
  Effect.gen(function* () {
    const app = yield* folder
    yield* buildIn(app)
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
    assert.strictEqual(yield* gateway.kill("SIGTERM"), 0)
  }).pipe(Effect.scoped)
)
