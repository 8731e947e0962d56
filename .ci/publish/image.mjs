import { spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, matchesGlob, relative } from "node:path"
import { createInterface } from "node:readline"
import { read, stages } from "../../apps/gateway/test/deploy/Dockerfile.ts"
import { capture, environment, root } from "../setup.mjs"
import { endOf } from "./consumer.mjs"
import { packed } from "./pack.mjs"

/** Whoever runs the image. Another user than root cannot become somebody else. */
const user = process.getuid?.() === 0 ? { uid: 65_532, gid: 65_532 } : {}

const isIgnored = (path) => {
  // The last pattern that names the path or a folder above it decides.
  const last = read(".dockerignore")
    .split("\n")
    .findLast((line) => [line, `${line}/**`].some((pattern) => matchesGlob(path, pattern.replace(/^!/, ""))))
  return last !== undefined && !last.startsWith("!")
}

/** Copies what a `COPY` names from the checkout, except what `.dockerignore` leaves out; from the first stage, the tarballs. */
const copy = (text, folder) => {
  const [, to] = /^--from=pack \/app\/\.bowline\/packed (\S+)$/.exec(text) ?? []
  if (to !== undefined) return cpSync(packed, join(folder, to), { recursive: true })
  const paths = text.split(" ")
  const target = paths.pop()
  for (const path of paths) {
    const to = join(folder, target.endsWith("/") ? join(target, path) : target)
    cpSync(join(root, path), to, { recursive: true, filter: (source) => !isIgnored(relative(root, source)) })
  }
}

/** Does in the folder what the stage does in its working directory. The packages come from the store of the checkout's install. */
const build = async (stage, app) => {
  const env = { ...environment(), CI: "true", npm_config_prefer_offline: "true" }
  for (const { name, text } of stage) {
    if (name === "COPY") copy(text, app)
    if (name !== "RUN") continue
    const { code, output } = await capture("sh", ["-ec", text], { cwd: app, env })
    if (code !== 0) return [`${text}\nhas ended with ${code}:\n${output}`]
  }
  return []
}

const ask = async (url) => {
  const problems = []
  const headers = { accept: "application/json", "content-type": "application/json" }
  const plan = await fetch(`${url}/plan`, { method: "POST", headers, body: `{"question":"What is a bowline?"}` })
  const { state } = await plan.json()
  if (state !== "completed") problems.push(`its plan is ${state}`)
  const page = await (await fetch(url, { headers: { accept: "text/html" } })).text()
  const [, script = "none"] = /src="(\/assets\/[^"]+)"/.exec(page) ?? []
  const { status } = await fetch(url + script)
  if (status !== 200) problems.push(`the script of the console is a ${status}`)
  return problems
}

/** Runs the program on a folder that it cannot write to, with the embedded database in one that it can. */
const run = async (program, data) => {
  const env = { ...environment(), NODE_ENV: "production", BOWLINE_PORT: "0" }
  const child = spawn(program, ["serve"], { cwd: data, env, ...user, stdio: ["ignore", "ignore", "pipe"] })
  const ended = once(child, "close")
  const lines = []
  try {
    for await (const line of createInterface({ input: child.stderr })) {
      lines.push(line)
      const [url] = /http:\/\/127\.0\.0\.1:[1-9]\d*/.exec(line) ?? []
      if (url === undefined) continue
      child.stderr.resume()
      const problems = await ask(url)
      child.kill("SIGTERM")
      const end = await endOf(ended)
      return end === 0 ? problems : [...problems, `it ends at SIGTERM with ${end}`]
    }
    return [`it does not start:\n${lines.join("\n")}`]
  } finally {
    child.kill("SIGKILL")
  }
}

/** Does what the Dockerfile does, with the tarballs that were packed, and runs what comes out as the image's user. Returns what went wrong. */
export const checkImage = async () => {
  const folder = mkdtempSync(join(tmpdir(), "bowline-image-"))
  const [app, data] = ["app", "data"].map((name) => join(folder, name))
  try {
    for (const path of [app, data]) mkdirSync(path)
    chmodSync(folder, 0o755)
    if (user.uid !== undefined) chownSync(data, user.uid, user.gid)
    const [, stage, image] = stages(read("Dockerfile"))
    const problems = await build(stage, app)
    if (problems.length > 0) return problems
    const left = [
      "packed",
      "packages/runtime/src",
      "packages/runtime/test",
      "node_modules/vitest",
      "node_modules/.bin/node"
    ]
    problems.push(...left.filter((path) => existsSync(join(app, path))).map((path) => `it has ${path}`))
    await capture("chmod", ["-R", "a-w", app])
    const { text = "" } = image.find(({ text }) => text.startsWith("ln -s")) ?? {}
    problems.push(...(await run(text.replace(/^ln -s \/app\/(\S+) .*$/, `${app}/$1`), data)))
    return problems.map((problem) => `The image: ${problem}`)
  } finally {
    await capture("chmod", ["-R", "u+w", folder])
    rmSync(folder, { recursive: true, force: true })
  }
}
