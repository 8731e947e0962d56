import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { exchange } from "../../src/http/Exchange.ts"

it.effect("an answer in single bytes is put into one buffer, and no piece of it is kept", () =>
  Effect.gen(function* () {
    const said = "One byte at a time: ä"
    const bytes = new TextEncoder().encode(said)
    // Every pull gives the same array: whoever keeps it reads another byte later.
    const piece = new Uint8Array(1)
    let at = 0
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
      {
        pull: (controller) => {
          if (at === bytes.length) return controller.close()
          piece.set(bytes.subarray(at, ++at))
          controller.enqueue(piece)
        }
      },
      { highWaterMark: 0 }
    )
    const client = HttpClient.make((request) => Effect.succeed(HttpClientResponse.fromWeb(request, new Response(body))))
    const answer = yield* exchange(client, HttpClientRequest.get("http://peer.example/"))
    assert.strictEqual(answer.body, said)
  })
)
