import { gzipSync } from "node:zlib"
import { build } from "vite"
import { assert, it } from "vitest"

/** The main entry as a page would load it: one file, minified. */
const bundle = async (): Promise<string> => {
  const result = await build({
    configFile: false,
    logLevel: "silent",
    root: new URL("..", import.meta.url).pathname,
    build: {
      write: false,
      rolldownOptions: { output: { minify: true } },
      target: "es2024",
      lib: { entry: "src/Bowline.ts", formats: ["es"], fileName: "bowline" }
    }
  })
  const [{ output } = { output: [] }] = [result].flat().filter((one) => "output" in one)
  assert.strictEqual(output.length, 1)
  const [chunk] = output
  assert.strictEqual(chunk?.type, "chunk")
  assert.deepStrictEqual(chunk?.type === "chunk" ? chunk.imports : undefined, [], "It needs nothing else")
  return chunk?.type === "chunk" ? chunk.code : ""
}

it("the plain client has at most 8 kB behind gzip, and no dependency", async () => {
  const size = gzipSync(await bundle(), { level: 9 }).length
  assert.isAtMost(size, 8_000)
  assert.isAbove(size, 1_000)
})
