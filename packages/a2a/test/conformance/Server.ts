import type { Dialect } from "@bowline/domain/peer/Agent"
import type { Act } from "@bowline/testing/peer/Act"
import { type Clock, Effect, type Scope } from "effect"
import express from "express"

/** What a server's agent got: the texts and the data of a message's parts. */
export interface Received {
  readonly parts: ReadonlyArray<unknown>
  readonly continues: boolean
}

/** What a server's agent does with each message, on which clock, and whether the server streams it. */
export interface ServerScript {
  readonly clock: Clock.Clock
  readonly streams: boolean
  readonly acts: (received: Received) => ReadonlyArray<Act>
}

/** A server that speaks A2A, whoever wrote it. */
export interface Server {
  readonly url: string
  /** The dialect that its card says. */
  readonly dialect: Dialect
  /** Waits until the agent is told to cancel a task: its id. */
  readonly cancelled: Effect.Effect<string>
}

/** Serves an app over HTTP on a free port of the loopback address. `mount` gets the origin that it is served at. */
export const listen = (
  mount: (app: express.Express, origin: string) => void
): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<{ readonly origin: string; readonly close: () => void }>((resume) => {
        const app = express()
        const server = app.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const origin = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`
          mount(app, origin)
          resume(
            Effect.succeed({
              origin,
              close: () => {
                server.close()
                server.closeAllConnections()
              }
            })
          )
        })
      }),
      ({ close }) => Effect.sync(close)
    ),
    ({ origin }) => origin
  )
