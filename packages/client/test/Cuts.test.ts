import * as CutStream from "@bowline/testing/unstable/http/CutStream"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { type BowlineError, type Frame, makeBowline } from "../src/Bowline.ts"
import { systemClock } from "../src/Clock.ts"
import { fullJitter } from "../src/Requests.ts"
import { makeClock, makeGateway, openStream, stream } from "./Gateway.ts"

const ids = CutStream.stored.map((_, i) => i + 1)
const question = { question: "Which knot?" }

/** The frames and the text of one plan whose first answer is cut behind so many bytes. */
const read = async (baseUrl: string, cut: number) => {
  const clock = { ...systemClock, random: () => 0 }
  const bowline = makeBowline({
    options: { baseUrl, headers: { "x-cut": String(cut) } },
    clock,
    backoff: fullJitter(clock)
  })
  const plan = bowline.plan(question)
  const frames: Array<Frame> = []
  for await (const frame of plan) frames.push(frame)
  const { text } = await plan.result()
  return { frames, text }
}

describe("a stream behind a proxy that cuts it", () => {
  it.live("gives the same frames, once each, whatever the byte at which it was cut", () =>
    Effect.gen(function* () {
      const { askedFor, url } = yield* CutStream.open()
      yield* Effect.promise(async () => {
        const whole = await read(url, 1_000_000)
        const { bytes, requests } = askedFor("1000000")
        assert.deepStrictEqual([whole.frames.map(({ id }) => id), requests], [ids, 1])
        assert.isAbove(bytes, 600)
        let cut = -1
        let cuts = 0
        const readNext = async (): Promise<void> => {
          while (++cut < bytes) {
            const at = cut
            const one = await read(url, at)
            const { keys, requests } = askedFor(String(at))
            assert.deepStrictEqual(one.frames, whole.frames, `Cut behind ${at} bytes`)
            assert.deepStrictEqual([one.text, keys.size], [CutStream.text, 1], `Cut behind ${at} bytes`)
            if (requests > 1) cuts++
          }
        }
        await Promise.all(Array.from({ length: 16 }, readNext))
        // Behind `done` nobody misses the end of the answer.
        assert.isAtLeast(cuts, bytes - 32)
      })
    })
  )
})

describe("a stream that is cut and never comes back", () => {
  const bytes = new TextEncoder().encode(CutStream.stored.join(""))

  it("has no result, whatever the byte at which it was cut", async () => {
    for (let cut = 0; cut < bytes.length; cut++) {
      const { advance, clock } = makeClock()
      const { answer, fetch } = makeGateway()
      const open = openStream()
      answer(open.response, ...Array.from({ length: 8 }, () => new TypeError("fetch failed")))
      const bowline = makeBowline({
        options: { baseUrl: "http://gateway", fetch, giveUpAfterMs: 1_000 },
        clock,
        backoff: fullJitter(clock)
      })
      const plan = bowline.plan(question)
      open.sendBytes(bytes.subarray(0, cut))
      open.end()
      let code: string | undefined
      plan.result().then(
        () => (code = "resolved"),
        (error: BowlineError) => (code = error.code)
      )
      await advance(1_000)
      assert.strictEqual(code, "incomplete", `Cut behind ${cut} bytes`)
    }
  })
})

describe("a stream whose head is cut, which Chromium takes for whole over plain http", () => {
  it.each([
    ["without a type", {}],
    ["with half a type", { "content-type": "text/eve" }]
  ])("is asked for again: %s", async (_, headers) => {
    const { advance, clock } = makeClock()
    const { answer, asked, fetch } = makeGateway()
    const bowline = makeBowline({ options: { baseUrl: "http://gateway", fetch }, clock, backoff: fullJitter(clock) })
    const empty = () => new Response("", { headers })
    answer(empty(), stream(...CutStream.stored.slice(0, 2)), empty(), stream(...CutStream.stored.slice(2)))
    const plan = bowline.plan(question)
    const result = plan.result()
    await advance(2_000)
    assert.strictEqual((await result).text, CutStream.text)
    assert.deepStrictEqual(
      asked.map(({ method }) => method),
      ["POST", "POST", "GET", "GET"]
    )
    const keys = asked.slice(0, 2).map(({ headers }) => headers.get("idempotency-key"))
    assert.strictEqual(keys[0], keys[1])
  })
})
