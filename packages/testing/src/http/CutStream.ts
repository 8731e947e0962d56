import { Effect } from "effect"
import { once } from "node:events"
import { createServer as createHttpServer } from "node:http"
import { connect, createServer, type Server } from "node:net"

const frame = (id: number, event: string, data: object = {}): string =>
  `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify({ plan_id: "p", session_id: "s", at: "2026-01-01", ...data })}\n\n`

const delta = (id: number, text: string) => frame(id, "text.delta", { step: 1, attempt: 1, delta: text })

/** Of `final`. */
export const text = "Grüße 🪢"

/** What the gateway has stored: with code points of several bytes, and a comment between two frames. Short, since each byte is a test. */
export const stored: ReadonlyArray<string> = [
  frame(1, "session", { external_session_id: null, created: true }),
  frame(2, "step", { step: 1, attempt: 1 }),
  `${delta(3, "Grüße ")}: ping\n\n`,
  delta(4, "🪢"),
  frame(5, "final", { stop_reason: "stop", text }),
  frame(6, "done")
]

/** The requests of one plan. */
interface Asked {
  requests: number
  readonly keys: Set<string>
  /** Of all answers, with their headers. */
  bytes: number
}

/** Runs a server until the scope ends, and gives its port. */
const listen = (server: Server) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      await once(server.listen(0, "127.0.0.1"), "listening")
      const address = server.address()
      return typeof address === "object" ? (address?.port ?? 0) : 0
    }),
    () => Effect.sync(() => server.close())
  )

/**
 * A gateway that answers with `stored`, from the start or after `Last-Event-ID`, behind a proxy that cuts. The header `x-cut` names a plan and
 * says behind how many bytes its first answer is cut: `120`. Behind `120 for good` it has nothing but 503. `pages` are served by their path.
 */
export const open = Effect.fnUntraced(function* (
  pages: Readonly<Record<string, { readonly type: string; readonly body: string }>> = {}
) {
  const plans = new Map<string, Asked>()
  const askedFor = (cut: string): Asked => {
    const asked = plans.get(cut) ?? { requests: 0, keys: new Set(), bytes: 0 }
    plans.set(cut, asked)
    return asked
  }

  const gateway = createHttpServer((request, response) => {
    request.resume()
    const page = pages[request.url ?? ""]
    const cut = request.headers["x-cut"]
    if (page !== undefined) {
      response.writeHead(200, { "content-type": page.type, connection: "close" }).end(page.body)
    } else if (typeof cut !== "string") {
      response.writeHead(404, { connection: "close" }).end()
    } else {
      const asked = askedFor(cut)
      const key = request.headers["idempotency-key"]
      if (typeof key === "string") asked.keys.add(key)
      if (++asked.requests > 1 && cut.endsWith(" for good")) {
        response.writeHead(503, { "retry-after": "60", connection: "close" }).end()
        return
      }
      const after = Number(request.headers["last-event-id"] ?? 0)
      // Each byte of the head is a test, too.
      response.sendDate = false
      response
        .writeHead(200, { "content-type": "text/event-stream", connection: "close" })
        .end(stored.slice(after).join(""))
    }
  })
  const port = yield* listen(gateway)

  const isCut = new Set<string>()
  const proxy = createServer((client) => {
    const server = connect(port, "127.0.0.1")
    const drop = () => {
      client.destroy()
      server.destroy()
    }
    let left = Infinity
    client.once("data", (chunk) => {
      const cut = /^x-cut: (\d+.*?)\r$/im.exec(chunk.toString("latin1"))?.[1]
      if (cut !== undefined && !isCut.has(cut)) {
        isCut.add(cut)
        left = Number.parseInt(cut, 10)
      }
      server.on("data", (bytes) => {
        if (cut !== undefined) askedFor(cut).bytes += bytes.length
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
  return { url: `http://127.0.0.1:${yield* listen(proxy)}`, askedFor }
})
