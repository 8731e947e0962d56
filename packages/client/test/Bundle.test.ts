import * as CutStream from "@bowline/testing/unstable/http/CutStream"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createContext, runInContext } from "node:vm"
import { gzipSync } from "node:zlib"
import { build } from "vite"

/** An entry as one minified file, for no runtime in particular: as a module, or as a script that gives its exports. */
const bundle = async (format: "es" | "iife", entry = "src/Bowline.ts"): Promise<string> => {
  const result = await build({
    configFile: false,
    logLevel: "silent",
    root: new URL("..", import.meta.url).pathname,
    build: {
      write: false,
      rolldownOptions: { platform: "neutral", output: { minify: true } },
      target: "es2024",
      lib: { entry, formats: [format], fileName: "bowline", name: "client" }
    }
  })
  const [{ output } = { output: [] }] = [result].flat().filter((one) => "output" in one)
  assert.strictEqual(output.length, 1)
  const [chunk] = output
  assert.strictEqual(chunk?.type, "chunk")
  assert.deepStrictEqual(chunk?.type === "chunk" ? chunk.imports : undefined, [], "It needs nothing else")
  return chunk?.type === "chunk" ? chunk.code : ""
}

/** What browsers, workers, Bun and Deno have beside the language. Nothing of Node's own: no process, no Buffer, no require. */
const web = () => ({
  AbortController,
  AbortSignal,
  crypto: { getRandomValues: (bytes: Uint8Array) => crypto.getRandomValues(bytes) },
  clearInterval: (timer: number) => clearInterval(timer),
  clearTimeout: (timer: number) => clearTimeout(timer),
  fetch,
  Request,
  // Elsewhere a timer is a number.
  setInterval: (run: () => void, ms: number) => setInterval(run, ms)[Symbol.toPrimitive](),
  setTimeout: (run: () => void, ms: number) => setTimeout(run, ms)[Symbol.toPrimitive](),
  TextDecoder,
  URLSearchParams
})

const program = `(async () => {
  Math.random = () => 0
  const plan = client.createBowline({ baseUrl, headers: { "x-cut": "400" } }).plan({ question: "Which knot?" })
  const ids = []
  for await (const { id } of plan) ids.push(id)
  return { ids, text: (await plan.result()).text, view: plan.view().text }
})()`

describe("the plain client", () => {
  it("has at most 8 kB behind gzip, and no dependency", async () => {
    const size = gzipSync(await bundle("es"), { level: 9 }).length
    assert.isAtMost(size, 8 * 1_024)
    assert.isAbove(size, 1_000)
  })

  it("has at most 1 kB more with tools", async () => {
    const [plain, tools] = await Promise.all([bundle("es"), bundle("es", "src/tools/ToolPlans.ts")])
    const [size, sizeWithTools] = [plain, tools].map((code) => gzipSync(code, { level: 9 }).length)
    assert.isAtMost((sizeWithTools ?? Infinity) - (size ?? 0), 1_024)
  })

  it("has at most 1 kB more with files", async () => {
    const [plain, files] = await Promise.all([bundle("es"), bundle("es", "src/files/FileUploads.ts")])
    const [size, sizeWithFiles] = [plain, files].map((code) => gzipSync(code, { level: 9 }).length)
    assert.isAtMost((sizeWithFiles ?? Infinity) - (size ?? 0), 1_024)
  })

  it.live("needs no more than web standards: it resumes a stream where nothing of Node.js is", () =>
    Effect.gen(function* () {
      const { askedFor, url } = yield* CutStream.open()
      const code = yield* Effect.promise(() => bundle("iife"))
      const context = createContext({ ...web(), baseUrl: url })
      runInContext(code, context)
      const read = yield* Effect.promise(() => runInContext(program, context) as Promise<object>)
      const ids = CutStream.stored.map((_, i) => i + 1)
      // Of another realm.
      assert.deepStrictEqual(structuredClone(read), { ids, text: CutStream.text, view: CutStream.text })
      assert.strictEqual(askedFor("400").requests, 2)
    })
  )
})
