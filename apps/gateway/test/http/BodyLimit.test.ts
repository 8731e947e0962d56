import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { connect } from "node:net"
import { post, start } from "./RunningGateway.ts"

const limit = 2_048

const head = (url: string, header: string) =>
  `POST /plan HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\n${header}\r\n\r\n`

/** Writes for as long as the connection takes it, and gives what came back, and how many bytes were written. */
const pour = (url: string, first: string, piece: string) =>
  Effect.callback<{ readonly answer: string; readonly written: number }>((resume) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1")
    let answer = ""
    let written = 0
    socket.setEncoding("utf8")
    socket.on("data", (chunk: string) => (answer += chunk))
    socket.on("error", () => undefined)
    socket.on("close", () => resume(Effect.succeed({ answer, written })))
    const more = () => {
      while (piece !== "" && socket.writable) {
        written += piece.length
        if (!socket.write(piece)) return
      }
    }
    socket.on("drain", more)
    socket.write(first, more)
    return Effect.sync(() => socket.destroy())
  })

describe("a body", () => {
  it.live("is accepted up to the limit, and not a byte further", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { BOWLINE_MAX_BODY: "2KiB" })
      const ofSize = (size: number) => `{"question":" ${" ".repeat(size - 16)}"}`
      assert.strictEqual((yield* post(`${url}/plan`, ofSize(limit))).body["code"], "invalid_request")
      const { status, body } = yield* post(`${url}/plan`, ofSize(limit + 1))
      assert.deepStrictEqual([status, body["code"], body["retryable"]], [413, "payload_too_large", false])
    })
  )

  it.live("whose declared length is too large is refused before it is sent", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { BOWLINE_MAX_BODY: "2KiB" })
      const { answer } = yield* pour(url, head(url, `Content-Length: ${limit + 1}`), "")
      assert.match(answer, /^HTTP\/1\.1 413 [^]*"code":"payload_too_large"/)
    })
  )

  it.live("without an end is refused in the middle, and the connection closed", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { BOWLINE_MAX_BODY: "2KiB" })
      const chunk = `400\r\n${" ".repeat(1_024)}\r\n`
      const { answer, written } = yield* pour(url, head(url, "Transfer-Encoding: chunked"), chunk)
      assert.match(answer, /^HTTP\/1\.1 413 [^]*"code":"payload_too_large"/)
      // What the sockets hold between them, but not what a caller could send.
      assert.isBelow(written, 64 * 2 ** 20)
    })
  )
})
