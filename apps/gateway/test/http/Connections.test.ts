import { say, type Turn } from "@bowline/testing/provider/Turn"
import { stall, wait } from "@bowline/testing/http/Move"
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Metric, Schedule } from "effect"
import { HttpServer, HttpServerResponse } from "effect/http"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { once } from "node:events"
import type { Socket } from "node:net"
import { join } from "node:path"
import { promisify } from "node:util"
import * as ListeningServer from "../../src/http/ListeningServer.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { ask, open, readToEnd } from "./RawExchange.ts"
import { eventsOf, send, start } from "./RunningGateway.ts"

const withHttp = Effect.fnUntraced(function* (settings: string, script: ReadonlyArray<Turn> = []) {
  const folder = yield* folderOf({ "gateway.yaml": `http: ${settings}` })
  return yield* start(script, { BOWLINE_CONFIG: join(folder, "gateway.yaml") })
})

const head = (path: string, ...headers: ReadonlyArray<string>) =>
  ["POST", path, "HTTP/1.1"].join(" ") + ["", "Host: localhost", ...headers].join("\r\n")

/** The server's side of the next request that a server of this process gets. */
const arrival = Effect.callback<Socket>((resume) => {
  const channel = "http.server.request.start"
  const onStart = (message: unknown) => {
    unsubscribe(channel, onStart)
    resume(Effect.succeed((message as { readonly socket: Socket }).socket))
  }
  subscribe(channel, onStart)
})

describe("a request", () => {
  it.live("that comes before the server has its routes waits for them, unless its caller leaves", () =>
    Effect.gen(function* () {
      const seconds = Duration.seconds(10)
      const http = { headersTimeout: seconds, requestTimeout: seconds, keepAliveTimeout: seconds, maxConnections: 10 }
      const listening = yield* Layer.build(ListeningServer.layer({ host: "127.0.0.1", http, port: 0 }))
      const server = Context.get(listening, HttpServer.HttpServer)
      const early = Effect.fnUntraced(function* () {
        const arrived = yield* Effect.forkChild(arrival, { startImmediately: true })
        const socket = yield* open(HttpServer.formatAddress(server.address))
        socket.write(`${head("/")}\r\n\r\n`)
        return { socket, peer: yield* Fiber.join(arrived) }
      })
      const gone = yield* early()
      const waiting = yield* early()
      const answer = yield* Effect.forkChild(readToEnd(waiting.socket), { startImmediately: true })
      gone.socket.destroy()
      yield* Effect.callback((resume) => void gone.peer.once("close", () => resume(Effect.void)))
      let answered = 0
      const app = Effect.sync(() =>
        HttpServerResponse.text(`answer ${++answered}`, { headers: { connection: "close" } })
      )
      yield* server.serve(app)
      assert.match(yield* Fiber.join(answer), /answer 1$/)
    }).pipe(Effect.scoped)
  )

  it.live("is cut with 408 when its head does not come in time", () =>
    Effect.gen(function* () {
      const { url } = yield* withHttp("{ headers_timeout: 200ms }")
      const socket = yield* open(url)
      const answer = yield* Effect.forkChild(readToEnd(socket), { startImmediately: true })
      socket.write(head("/plan"))
      const text = yield* Fiber.join(answer)
      assert.match(text, /^HTTP\/1\.1 408 /)
      assert.deepInclude(problemIn(text), { status: 408, code: "request_timeout", retryable: true })
      // Whoever opens a connection and says nothing is cut, too.
      const silent = yield* open(url)
      assert.match(yield* readToEnd(silent), /^HTTP\/1\.1 408 /)
    })
  )

  it.live("is cut with 408 when its body does not come in time, and starts no plan", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* withHttp("{ request_timeout: 300ms }")
      const socket = yield* open(url)
      const answer = yield* Effect.forkChild(readToEnd(socket), { startImmediately: true })
      const body = JSON.stringify({ question: "?" })
      socket.write(`${head("/plan", "Content-Type: application/json", `Content-Length: ${body.length}`)}\r\n\r\n`)
      socket.write(body.slice(0, -1))
      assert.match(yield* Fiber.join(answer), /^HTTP\/1\.1 408 /)
      assert.lengthOf(yield* provider.requests.all, 0)
    })
  )

  it.live("that came in time has an answer as long as it takes", () =>
    Effect.gen(function* () {
      const { url } = yield* withHttp("{ headers_timeout: 1s, request_timeout: 1s }", [
        // The server looks once a second.
        [say("a"), wait("2500 millis"), say("b")]
      ])
      const { text } = yield* send(`${url}/plan`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ question: "?" })
      })
      assert.strictEqual(eventsOf(text).at(-1), "done")
    })
  )
})

const problemIn = (text: string) => {
  const [head = "", body = ""] = text.split("\r\n\r\n").slice(-2)
  const problem = JSON.parse(body) as Readonly<Record<string, unknown>>
  assert.include(head, "application/problem+json")
  assert.include(head, `x-request-id: ${String(problem["request_id"])}`)
  return problem
}

describe("what is no request", () => {
  for (const [what, lines, problem] of [
    ["a header without a name", [": a"], { status: 400, code: "invalid_request" }],
    [
      "a body with two lengths",
      ["Content-Length: 5", "Transfer-Encoding: chunked"],
      { detail: "Expected HTTP/1.1: Transfer-Encoding can't be present with Content-Length" }
    ],
    ["a head that is too large", [`X: ${"x".repeat(17_000)}`], { status: 431, code: "head_too_large" }]
  ] as const) {
    it.live(`is refused with a problem document: ${what}`, () =>
      Effect.gen(function* () {
        const { url } = yield* withHttp("{}")
        const socket = yield* open(url)
        const answer = yield* Effect.forkChild(readToEnd(socket), { startImmediately: true })
        socket.write(`${head("/plan", ...lines)}\r\n\r\n`)
        assert.deepInclude(problemIn(yield* Fiber.join(answer)), problem)
      })
    )
  }

  it.live("is read on behind its answer, which a closed connection would lose", () =>
    Effect.gen(function* () {
      const { url } = yield* withHttp("{}")
      const socket = yield* open(url)
      const answer = yield* Effect.forkChild(readToEnd(socket), { startImmediately: true })
      const write = promisify((bytes: string, done: (failure?: Error | null) => void) => socket.write(bytes, done))
      // The caller does not close its end when the gateway does.
      socket.allowHalfOpen = true
      socket.write(`${head("/plan", `X: ${"x".repeat(17_000)}`)}\r\n\r\n`)
      yield* Effect.promise(() => once(socket, "end"))
      yield* Effect.repeat(
        Effect.tryPromise(() => write("x".repeat(1_000_000))),
        { times: 9 }
      )
      socket.end()
      assert.strictEqual(problemIn(yield* Fiber.join(answer))["status"], 431)
    })
  )

  it.live.each<[string, string, RegExp]>([
    ["as a stream", "Accept: text/event-stream", /\r\n\r\n(?:.|\n|\r)*event: done\n/],
    ["as one object", "Accept: application/json", /"text":"ab"/]
  ])("is answered to its end %s, though its caller has closed its own end behind it", ([, accept, whole]) =>
    Effect.gen(function* () {
      const { url } = yield* withHttp("{}", [[say("a"), wait("200 millis"), say("b")]])
      const socket = yield* open(url)
      socket.allowHalfOpen = true
      const answer = yield* Effect.forkChild(readToEnd(socket), { startImmediately: true })
      const body = JSON.stringify({ question: "?" })
      const lines = ["Content-Type: application/json", `Content-Length: ${body.length}`, accept]
      socket.end(`${head("/plan", ...lines)}\r\n\r\n${body}`)
      const text = yield* Fiber.join(answer)
      assert.match(text, /^HTTP\/1\.1 200 /m)
      assert.match(text, whole)
    })
  )

  it.live.each<[string, string, string]>([
    ["a stream", "HTTP/1.1", "text/event-stream"],
    ["one object", "HTTP/1.1", "application/json"],
    ["a stream of HTTP/1.0", "HTTP/1.0", "text/event-stream"],
    ["one object of HTTP/1.0", "HTTP/1.0", "application/json"]
  ])("for %s ends its plan when its caller has left without a reset", ([, version, accept]) =>
    Effect.gen(function* () {
      const { provider, url } = yield* withHttp("{}", [[say("a"), stall]])
      const socket = yield* open(url)
      const body = JSON.stringify({ question: "?" })
      const lines = ["Content-Type: application/json", `Content-Length: ${body.length}`, `Accept: ${accept}`]
      socket.write(`${head("/plan", ...lines).replace("HTTP/1.1", version)}\r\n\r\n${body}`)
      yield* provider.requests.awaitCount(1)
      // All that has come is read, so that the end is a FIN and no reset.
      socket.resume()
      socket.end(() => socket.destroy())
      const { body: listed } = yield* send(`${url}/plans`).pipe(
        Effect.repeat({
          until: ({ body }) => JSON.stringify(body).includes('"aborted"'),
          schedule: Schedule.spaced("10 millis")
        })
      )
      assert.include(JSON.stringify(listed), '"reason":"disconnect"')
    })
  )

  it.live("is answered when its body turns out to be wrong, and starts no plan", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* withHttp("{}")
      const socket = yield* open(url)
      const answer = yield* Effect.forkChild(readToEnd(socket), { startImmediately: true })
      socket.write(`${head("/plan", "Content-Type: application/json", "Transfer-Encoding: chunked")}\r\n\r\n2\r\n{"`)
      yield* Effect.promise(() => fetch(`${url}/health`))
      socket.write("\r\nzz\r\n")
      assert.strictEqual(
        problemIn(yield* Fiber.join(answer))["detail"],
        "Expected HTTP/1.1: Invalid character in chunk size"
      )
      assert.lengthOf(yield* provider.requests.all, 0)
    })
  )

  it.live("takes nothing away from the answers in front of it on its connection", () =>
    Effect.gen(function* () {
      const { url } = yield* withHttp("{}", [[say("a"), wait("100 millis"), say("b")]])
      const socket = yield* open(url)
      const answer = yield* Effect.forkChild(readToEnd(socket), { startImmediately: true })
      const body = JSON.stringify({ question: "?" })
      const first = `${head("/plan", "Content-Type: application/json", `Content-Length: ${body.length}`)}\r\n\r\n${body}`
      socket.write(`${first}NO HTTP\r\n\r\n`)
      const text = yield* Fiber.join(answer)
      assert.strictEqual(eventsOf(text).at(-1), "done")
      assert.strictEqual(problemIn(text)["status"], 400)
    })
  )

  it.live("is not a wish for another protocol, which nobody has to fulfil", () =>
    Effect.gen(function* () {
      const exchange = Effect.fnUntraced(function* (
        settings: string,
        path: string,
        body: string,
        ...headers: ReadonlyArray<string>
      ) {
        const { url } = yield* withHttp(settings)
        const socket = yield* open(url)
        const answer = yield* Effect.forkChild(readToEnd(socket), { startImmediately: true })
        socket.write(`${head(path, "Connection: Upgrade, close", "Upgrade: h2c", ...headers)}\r\n\r\n${body}`)
        return problemIn(yield* Fiber.join(answer))["code"]
      })
      assert.strictEqual(yield* exchange("{}", "/nowhere", "0\r\n\r\n", "Transfer-Encoding: chunked"), "not_found")
      const slow = ["Content-Type: application/json", "Content-Length: 9"]
      assert.strictEqual(yield* exchange("{ request_timeout: 300ms }", "/plan", "{", ...slow), "request_timeout")
    })
  )

  it.live("is not an expectation that the gateway does not know", () =>
    Effect.gen(function* () {
      const { url } = yield* withHttp("{}")
      const { code, status } = yield* ask(url, head("/nowhere"), "Expect: miracles", "Connection: close")
      assert.deepStrictEqual([status, code], [404, "not_found"])
    })
  )
})

describe("an idle connection", () => {
  it.live("is closed when its time is over", () =>
    Effect.gen(function* () {
      const { url } = yield* withHttp("{ keep_alive_timeout: 1s }")
      const socket = yield* open(url)
      socket.write(`${head("/nowhere", "Content-Length: 0")}\r\n\r\n`)
      assert.match(yield* readToEnd(socket), /^keep-alive: timeout=1\r$/im)
    })
  )

  it.live("stays open for longer than proxies keep it", () =>
    Effect.gen(function* () {
      const { url } = yield* withHttp("{}")
      const { headers } = yield* Effect.promise(() => fetch(`${url}/health`))
      assert.strictEqual(headers.get("keep-alive"), "timeout=75")
    })
  )
})

it.live("one connection more than may be open is closed at once, and counted", () =>
  Effect.gen(function* () {
    const { url } = yield* withHttp("{ max_connections: 2 }")
    const first = yield* open(url)
    yield* open(url)
    const third = yield* open(url)
    assert.strictEqual(yield* readToEnd(third), "")
    const dropped = (yield* Metric.snapshot).find(({ id }) => id === "bowline.connections.dropped")
    assert.deepStrictEqual(dropped?.state, { count: 1, incremental: true })
    // There is room again when one of the others is closed.
    first.destroy()
    yield* Effect.promise(() => once(first, "close"))
    const answer = yield* Effect.repeat(Effect.option(Effect.tryPromise(() => fetch(`${url}/health`))), {
      until: (found) => found._tag === "Some"
    })
    assert.strictEqual(answer._tag, "Some")
  }).pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map()))
)
