import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall, until } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { say, type Turn } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { createServer } from "node:http"
import { databases } from "../plan/Databases.ts"
import { start } from "../plan/GatewayProcess.ts"
import { bowline } from "./Bowline.ts"

/** A balancer that has nobody to ask, for so many requests. */
const refuse = (port: number, requests: number) =>
  Effect.promise(
    () =>
      new Promise<void>((resolve) => {
        let left = requests
        const server = createServer((_, response) => {
          response.writeHead(502, { connection: "close" }).end("Bad gateway")
          if (--left === 0) server.close(() => resolve())
        })
        server.listen(port, "127.0.0.1")
      })
  )

describe("bowline ask", () => {
  it.live("prints the answer once, though the gateway restarts in the middle of it", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const asked = yield* Deferred.make<void>()
      const turns: Array<Turn> = [
        [say("half"), until(Effect.asVoid(Deferred.succeed(asked, undefined))), stall],
        [say("whole")]
      ]
      const provider = yield* network.serve(yield* ChatHost.make(turns))
      const settings = {
        ...(yield* databases.postgres),
        OPENAI_BASE_URL: `${provider.url}/v1`,
        BOWLINE_MODEL: "openai/scripted",
        BOWLINE_SHUTDOWN_GRACE: "200ms"
      }
      const first = yield* start(settings)
      const { ended } = yield* bowline(["ask", "What?"], { BOWLINE_URL: first.url })
      yield* Deferred.await(asked)
      assert.strictEqual(yield* first.kill("SIGTERM"), 0)

      const { port } = new URL(first.url)
      yield* refuse(Number(port), 2)
      yield* start({ ...settings, BOWLINE_PORT: port })
      assert.deepStrictEqual(yield* ended, { stdout: "whole\n", stderr: "", code: 0, signal: null })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
