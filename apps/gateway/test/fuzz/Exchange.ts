import { Effect } from "effect"
import { setTimeout } from "node:timers/promises"
import { open } from "../http/RawExchange.ts"
import type { HostileRequest } from "./HostileRequest.ts"

export interface Answer {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** The bytes of a chunked body, and where it ends, if all of it is there. */
const readChunks = (bytes: Buffer, from: number): readonly [body: Buffer, end: number] | undefined => {
  const pieces: Array<Buffer> = []
  for (let at = from; ;) {
    const line = bytes.indexOf("\r\n", at)
    if (line === -1) return undefined
    const size = Number.parseInt(bytes.toString("latin1", at, line), 16)
    const end = line + 2 + size
    if (!(bytes.length >= end + 2)) return undefined
    if (size === 0) return [Buffer.concat(pieces), end + 2]
    pieces.push(bytes.subarray(line + 2, end))
    at = end + 2
  }
}

/** The whole answers among what came. One without a length ends with its connection. */
const read = (bytes: Buffer, isOver: boolean, methods: ReadonlyArray<string>): ReadonlyArray<Answer> => {
  const answers: Array<Answer> = []
  for (let at = 0; ;) {
    const end = bytes.indexOf("\r\n\r\n", at)
    if (end === -1) return answers
    const [first = "", ...lines] = bytes.toString("latin1", at, end).split("\r\n")
    const headers = new Map(
      lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()])
    )
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1])
    const start = end + 4
    const length = headers.get("content-length")
    let stop = isOver ? bytes.length : Number.POSITIVE_INFINITY
    let body = bytes.subarray(start)
    if (methods[answers.length] === "HEAD" || status === 204 || status < 200) [body, stop] = [Buffer.alloc(0), start]
    else if (headers.get("transfer-encoding") === "chunked") [body, stop] = readChunks(bytes, start) ?? [body, Infinity]
    else if (length !== undefined)
      [body, stop] = [bytes.subarray(start, start + Number(length)), start + Number(length)]
    if (stop > bytes.length) return answers
    if (status >= 200) answers.push({ status, headers, body: body.toString() })
    at = stop
  }
}

/** Sends it as it is, and gives the answers: as many as there have to be, or all that come until the connection is closed. */
export const exchange = (url: string, { end, methods, pauseMs, pieces }: HostileRequest) =>
  Effect.scoped(
    Effect.gen(function* () {
      const socket = yield* open(url)
      return yield* Effect.promise(
        () =>
          new Promise<ReadonlyArray<Answer>>((resolve) => {
            let received = Buffer.alloc(65_536)
            let size = 0
            const look = (isOver: boolean) => {
              const answers = read(received.subarray(0, size), isOver, methods)
              if (isOver || answers.length >= methods.length) resolve(answers)
            }
            socket.on("data", (bytes) => {
              if (size + bytes.length > received.length) received = Buffer.concat([received], 2 * (size + bytes.length))
              size += bytes.copy(received, size)
              look(false)
            })
            socket.on("close", () => look(true))
            const send = async () => {
              for (const piece of pieces) {
                if (socket.destroyed) return
                if (!socket.write(piece))
                  await new Promise((resume) => socket.once("drain", resume).once("close", resume))
                if (pauseMs > 0) await setTimeout(pauseMs)
              }
              if (end === "halfClose") socket.end()
              if (end === "leave") socket.resetAndDestroy()
            }
            void send()
          })
      )
    })
  )
