import { createServer as createHttpServer } from "node:http"
import { connect, createServer, type AddressInfo, type Server } from "node:net"
import { once } from "node:events"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { type BowlineError, type Frame, makeBowline } from "../src/Bowline.ts"
import { systemClock } from "../src/Clock.ts"
import { fullJitter } from "../src/Requests.ts"
import { frame, final, makeClock, makeGateway, openStream } from "./Gateway.ts"

const delta = (id: number, text: string) => frame(id, "text.delta", { step: 1, attempt: 1, delta: text })

/** What the gateway has stored: with code points of several bytes, and a comment between two frames. Short, since each byte is a test. */
const stored: ReadonlyArray<string> = [
  frame(1, "session", { external_session_id: null, created: true }),
  frame(2, "step", { step: 1, attempt: 1 }),
  `${delta(3, "Grüße ")}: ping\n\n`,
  delta(4, "🪢"),
  final(5, "Grüße 🪢"),
  frame(6, "done")
].map((text) => text.replace(/"plan_id":"[^"]*","session_id":"[^"]*"/, '"plan_id":"p","session_id":"s"'))
const ids = stored.map((_, i) => i + 1)
const question = { question: "Which knot?" }

const listen = async (server: Server): Promise<number> => {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return (server.address() as AddressInfo).port
}

/** Answers as a gateway does: from the start, or behind `Last-Event-ID`. */
const gateway = createHttpServer((request, response) => {
  const after = Number(request.headers["last-event-id"] ?? 0)
  request.resume()
  response.writeHead(200, { "content-type": "text/event-stream", connection: "close" })
  response.end(stored.slice(after).join(""))
})

/** Passes bytes on, and cuts the first answer to each request that has an `x-cut` behind so many of them. */
const proxyTo = (port: number, isCut: Set<string>, sizes: Map<string, number>): Server =>
  createServer((client) => {
    const server = connect(port, "127.0.0.1")
    const drop = () => {
      client.destroy()
      server.destroy()
    }
    let left = Infinity
    client.once("data", (chunk) => {
      const cut = /x-cut: (\d+)/i.exec(chunk.toString("latin1"))?.[1]
      if (cut !== undefined && !isCut.has(cut)) {
        isCut.add(cut)
        left = Number(cut)
      }
      server.on("data", (bytes) => {
        if (cut !== undefined) sizes.set(cut, (sizes.get(cut) ?? 0) + bytes.length)
        if (bytes.length <= left) {
          left -= bytes.length
          client.write(bytes)
        } else if (left >= 0) {
          client.write(bytes.subarray(0, left), drop)
          left = -1
        }
      })
    })
    client.pipe(server)
    server.on("end", () => (left >= 0 ? client.end() : undefined))
    server.on("error", drop)
    client.on("error", drop)
  })

describe("a stream behind a proxy that cuts it", () => {
  const isCut = new Set<string>()
  const sizes = new Map<string, number>()
  const servers: Array<Server> = [gateway]
  let baseUrl = ""
  beforeAll(async () => {
    const proxy = proxyTo(await listen(gateway), isCut, sizes)
    servers.push(proxy)
    baseUrl = `http://127.0.0.1:${await listen(proxy)}`
  })
  afterAll(() => {
    for (const server of servers) server.close()
  })

  /** The frames, the result and the requests of one plan whose first answer is cut behind so many bytes. */
  const read = async (cut: number) => {
    const clock = { ...systemClock, random: () => 0 }
    const keys = new Set<string | null>()
    let requests = 0
    const bowline = makeBowline({
      options: {
        baseUrl,
        headers: { "x-cut": String(cut) },
        fetch: (url, init) => {
          requests++
          const key = new Headers(init?.headers).get("idempotency-key")
          if (init?.method === "POST") keys.add(key)
          return fetch(url, init)
        }
      },
      clock,
      backoff: fullJitter(clock)
    })
    const plan = bowline.plan(question)
    const frames: Array<Frame> = []
    for await (const frame of plan) frames.push(frame)
    const { text } = await plan.result()
    return { frames, keys: keys.size, requests, text }
  }

  it("gives the same frames, once each, whatever the byte at which it was cut", async () => {
    const whole = await read(1_000_000)
    const size = sizes.get("1000000") ?? 0
    assert.deepStrictEqual([whole.frames.map(({ id }) => id), whole.requests], [ids, 1])
    assert.isAbove(size, 700)
    let cut = -1
    let cuts = 0
    const readNext = async (): Promise<void> => {
      while (++cut < size) {
        const at = cut
        const one = await read(at)
        assert.deepStrictEqual(one.frames, whole.frames, `Cut behind ${at} bytes`)
        assert.deepStrictEqual([one.text, one.keys], ["Grüße 🪢", 1], `Cut behind ${at} bytes`)
        if (one.requests > 1) cuts++
      }
    }
    await Promise.all(Array.from({ length: 16 }, readNext))
    // Behind `done` nobody misses the end of the answer.
    assert.isAtLeast(cuts, size - 32)
  })
})

describe("a stream that is cut and never comes back", () => {
  const bytes = new TextEncoder().encode(stored.join(""))

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
