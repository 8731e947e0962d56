import { Effect, type Scope } from "effect"
import { connect, type Socket } from "node:net"

/** A connection that is closed with the scope. */
export const open = (url: string): Effect.Effect<Socket, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<Socket>((resume) => {
      const { hostname, port } = new URL(url)
      const socket = connect({ host: hostname, port: Number(port) }, () => resume(Effect.succeed(socket)))
      // A connection that is reset is over.
      socket.on("error", () => undefined)
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

/** Everything that comes until the connection is closed. */
export const readToEnd = (socket: Socket): Effect.Effect<string> =>
  Effect.callback((resume) => {
    let text = ""
    socket.setEncoding("latin1").on("data", (chunk: string) => (text += chunk))
    socket.once("close", () => resume(Effect.succeed(text)))
  })

/** Sends these lines as the head of a request, and gives the answer's status and code as soon as they are there. */
export const ask = Effect.fnUntraced(function* (url: string, ...lines: ReadonlyArray<string>) {
  const socket = yield* open(url)
  socket.write(`${lines.join("\r\n")}\r\n\r\n`)
  return yield* Effect.callback<{ readonly status: number; readonly code: string | undefined; readonly head: string }>(
    (resume) => {
      let text = ""
      const look = (isOver: boolean) => {
        const [head = "", ...rest] = text.split("\r\n\r\n")
        const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Number.POSITIVE_INFINITY)
        const body = rest.join("\r\n\r\n")
        if (!isOver && body.length < length) return
        const code = /"code":"(\w+)"/.exec(body)?.[1]
        resume(Effect.succeed({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 0), code, head }))
      }
      socket.setEncoding("latin1").on("data", (chunk: string) => {
        text += chunk
        look(false)
      })
      socket.once("close", () => look(true))
    }
  )
}, Effect.scoped)
