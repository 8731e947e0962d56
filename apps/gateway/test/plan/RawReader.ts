import { once } from "node:events"
import { connect, type Socket } from "node:net"

/**
 * A reader of a plan's events over a bare socket, which costs the test little: of each frame it keeps the number, and of all of
 * them the size. It speaks HTTP/1.0, whose answers have no framing of their own.
 */
interface RawReader {
  /** Numbers of the frames, in the order in which they came whole. */
  readonly ids: ReadonlyArray<number>
  readonly size: () => number
  /** When the connection is over. */
  readonly ended: Promise<unknown>
}

const open = (url: string, planId: string): Socket => {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.write(`GET /plans/${planId}/events HTTP/1.0\r\nHost: ${hostname}\r\n\r\n`)
  return socket
}

const newline = 10

const follow = (socket: Socket, onFrame: (id: number) => void): RawReader => {
  const ids: Array<number> = []
  let total = 0
  // Of the block that is coming: how it begins, and its size. The head of the answer stands in front of the first one.
  let begin = ""
  let kept = 2_000
  let size = 0
  const add = (piece: Buffer) => {
    if (begin.length < kept) begin += piece.toString("latin1", 0, kept)
    size += piece.length
  }
  const end = () => {
    const match = /(?:^|\r\n\r\n)id: (\d+)\n/.exec(begin)
    if (match !== null) {
      const id = Number(match[1])
      ids.push(id)
      total += size - begin.indexOf("id: ", match.index)
      onFrame(id)
    }
    begin = ""
    kept = 20
    size = 0
  }
  let isSplit = false
  socket.on("data", (chunk) => {
    let from = 0
    if (isSplit && chunk[0] === newline) {
      size--
      end()
      from = 1
    }
    for (let at: number; (at = chunk.indexOf("\n\n", from)) !== -1; from = at + 2) {
      add(chunk.subarray(from, at))
      end()
    }
    add(chunk.subarray(from))
    isSplit = from < chunk.length && chunk.at(-1) === newline
  })
  // A connection that is reset is over, too.
  return { ids, size: () => total, ended: once(socket, "close").catch(() => undefined) }
}

/** Reads on, and tells of every frame. Resolves at the first one. */
export const read = (url: string, planId: string, onFrame: (id: number) => void): Promise<RawReader> =>
  new Promise((resolve) => {
    const reader = follow(open(url, planId), (id) => {
      resolve(reader)
      onFrame(id)
    })
  })

/** A reader whose answer has begun, and who takes nothing of it before it is told to read on. */
export const stall = async (url: string, planId: string): Promise<() => RawReader> => {
  const socket = open(url, planId)
  // Who waits for this event, and does not read, has paused the socket.
  await once(socket, "readable")
  return () => follow(socket, () => undefined)
}
