import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { createServer } from "node:tls"

const folder = join(import.meta.dirname, "certificates")
/** A certificate or key of the tests. */
export const pem = (name: string) => readFileSync(join(folder, `${name}.pem`), "utf8")

/** TLS in front of a server: who has no certificate of the authority is turned away. */
export const terminate = (target: string, certificate: string) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
      const server = createServer(
        {
          cert: pem(certificate),
          key: pem(`${certificate}-key`),
          ca: pem("authority"),
          requestCert: true,
          rejectUnauthorized: true
        },
        (socket) => {
          const inner = connect(Number(new URL(target).port), "127.0.0.1")
          socket.on("error", () => inner.destroy()).on("close", () => inner.destroy())
          inner.on("error", () => socket.destroy()).on("close", () => socket.destroy())
          socket.pipe(inner)
          inner.pipe(socket)
        }
      )
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ port, close: () => server.close() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** What a gateway that gets through is configured with. */
export const mutual = { cert: "client.pem", key: "client-key.pem", ca: "authority.pem" }
