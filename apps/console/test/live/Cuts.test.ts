import type { Frame } from "@bowline/client"
import * as CutStream from "@bowline/testing/unstable/http/CutStream"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { createRequire } from "node:module"
import type { Page } from "playwright-core"
import { build } from "vite"
import { describeInBrowser, openPage } from "../browser/Browser.ts"

/** The client as a page loads it: one module. */
const bundle = async (): Promise<string> => {
  const entry = createRequire(import.meta.url).resolve("@bowline/client")
  const result = await build({
    configFile: false,
    logLevel: "silent",
    build: { write: false, target: "es2024", lib: { entry, formats: ["es"], fileName: "bowline" } }
  })
  const [chunk] = [result].flat().flatMap((one) => ("output" in one ? one.output : []))
  return chunk?.type === "chunk" ? chunk.code : ""
}

/** The client waits by chance before it comes back: here never. */
const html = `<!doctype html><title>Cuts</title>
<script>Math.random = () => 0</script>
<script type="module">import { createBowline } from "/bowline.js"; globalThis.createBowline = createBowline</script>`

declare global {
  /** Of the page. */
  var createBowline: typeof import("@bowline/client").createBowline
}

/** At least as long as the head of the answer. */
const headLength = 256

interface Read {
  readonly frames: ReadonlyArray<Frame>
  /** Of the result, or the code of the error that is there instead. */
  readonly text?: string
  readonly code?: string
}

/** Reads plans in the page, some at once: one for each value of `x-cut`. */
const readAll = (page: Page, cuts: ReadonlyArray<string>): Promise<ReadonlyArray<Read>> =>
  page.evaluate(async (cuts) => {
    const reads: Array<Read> = []
    const read = async (cut: string): Promise<Read> => {
      // As plans have: an own URL, for the browser's cache lets requests for the same one wait.
      const bowline = createBowline({
        baseUrl: `/${encodeURIComponent(cut)}`,
        headers: { "x-cut": cut },
        giveUpAfterMs: 30_000
      })
      const plan = bowline.plan({ question: "Which knot?" })
      const result = plan.result()
      const frames: Array<Frame> = []
      try {
        for await (const frame of plan) frames.push(frame)
      } catch {
        // The result says it.
      }
      return result.then(
        ({ text }) => ({ frames, text }),
        (error: { readonly code: string }) => ({ frames, code: error.code })
      )
    }
    let next = 0
    const readNext = async () => {
      while (next < cuts.length) {
        const at = next++
        reads[at] = await read(cuts[at] ?? "")
      }
    }
    await Promise.all(Array.from({ length: 6 }, readNext))
    return reads
  }, cuts)

describeInBrowser("the client in a browser, behind a proxy that cuts the stream", () => {
  let built: Promise<string> | undefined
  const start = Effect.gen(function* () {
    const body = yield* Effect.promise(() => (built ??= bundle()))
    const { askedFor, url } = yield* CutStream.open({
      "/": { type: "text/html", body: html },
      "/bowline.js": { type: "text/javascript", body }
    })
    const { faults, page } = yield* openPage(url)
    const [whole] = yield* Effect.promise(() => readAll(page, ["1000000"]))
    const { bytes, requests } = askedFor("1000000")
    assert.deepStrictEqual(
      [whole?.frames.map(({ id }) => id), whole?.text, requests],
      [CutStream.stored.map((_, i) => i + 1), CutStream.text, 1]
    )
    assert.isAbove(bytes, 600)
    return { askedFor, bytes, faults, frames: whole?.frames ?? [], page }
  })

  it.live(
    "gives the same frames, once each, and the same result, cut at every byte of the head, and then at every third",
    () =>
      Effect.gen(function* () {
        const { askedFor, bytes, faults, frames, page } = yield* start
        // The client's own tests cut at each of them. A third of the bytes of a frame, and of a code point, is in each of its parts.
        const cuts = Array.from({ length: bytes }, (_, cut) => cut)
          .filter((cut) => cut < headLength || cut % 3 === 0)
          .map(String)
        const reads = yield* Effect.promise(() => readAll(page, cuts))
        let resumed = 0
        for (const [i, cut] of cuts.entries()) {
          const { keys, requests } = askedFor(cut)
          assert.deepStrictEqual(reads[i], { frames, text: CutStream.text }, `Cut behind ${cut} bytes`)
          assert.strictEqual(keys.size, 1, `Cut behind ${cut} bytes`)
          if (requests > 1) resumed++
        }
        // Behind `done` nobody misses the end of the answer.
        assert.isAtLeast(resumed, cuts.length - 80 / 3)
        assert.deepStrictEqual(faults, [])
      })
  )

  it.live("says that CORS refuses the page, where nothing but that is wrong", () =>
    Effect.gen(function* () {
      const { page } = yield* start
      const message = yield* Effect.promise(() =>
        page.evaluate(() => {
          const baseUrl = location.origin.replace("127.0.0.1", "localhost")
          const plan = createBowline({ baseUrl, giveUpAfterMs: 500 }).plan({ question: "Which knot?" })
          return plan.result().then(
            () => "",
            (error: Error) => error.message.replaceAll(/\d{4,}/g, "PORT")
          )
        })
      )
      assert.strictEqual(
        message,
        "Cannot reach http://localhost:PORT: CORS refuses pages of http://127.0.0.1:PORT: add it to cors.origins"
      )
    })
  )

  it.live("has no result where the rest never comes, cut at every byte of the head, and then at every eighth", () =>
    Effect.gen(function* () {
      const { bytes, faults, frames, page } = yield* start
      // Without what ends the body.
      const end = bytes - "\r\n0\r\n\r\n".length
      const cuts = Array.from({ length: end }, (_, cut) => cut).filter((cut) => cut < headLength || cut % 8 === 0)
      const reads = yield* Effect.promise(() =>
        readAll(
          page,
          cuts.map((cut) => `${cut} for good`)
        )
      )
      for (const [i, { code, frames: some }] of reads.entries()) {
        assert.strictEqual(code, "incomplete", `Cut behind ${cuts[i]} bytes`)
        assert.deepStrictEqual(some, frames.slice(0, some.length), `Cut behind ${cuts[i]} bytes`)
        assert.isBelow(some.length, frames.length, `Cut behind ${cuts[i]} bytes`)
      }
      assert.strictEqual(reads.length, cuts.length)
      assert.deepStrictEqual(faults, [])
    })
  )
})
