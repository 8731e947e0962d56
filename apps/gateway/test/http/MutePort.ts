import { Deferred, Effect } from "effect"
import { createServer } from "node:net"

/** A port at which a connection is accepted, and never answered. */
export const mutePort = Effect.gen(function* () {
  const asked = yield* Deferred.make<void>()
  const server = createServer(() => Deferred.doneUnsafe(asked, Effect.void))
  const port = yield* Effect.acquireRelease(
    Effect.callback<number>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () => Effect.sync(() => server.close())
  )
  return { port, asked: Deferred.await(asked) }
})
