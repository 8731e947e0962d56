// What the floor does, as a program of Effect is written: its server, its client on Undici, and one stream from one to the other.
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer, Stream } from "effect"
import { HttpClient, HttpClientRequest, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import type { ChatChunk, PlanRequest } from "./Traffic.ts"

const [provider = ""] = process.argv.slice(2)

const frame = (seq: number, event: string, data: unknown) =>
  `id: ${seq}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`

const deltaOf = (line: string): string | undefined =>
  line.startsWith("data: {")
    ? (JSON.parse(line.slice("data: ".length)) as ChatChunk).choices[0]?.delta?.content
    : undefined

const relay = <E>(answer: Stream.Stream<Uint8Array, E>): Stream.Stream<Uint8Array, E> =>
  answer.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.map(deltaOf),
    Stream.filter((delta) => delta !== undefined),
    Stream.mapAccum(
      () => 0,
      (seq, delta) => [seq + 1, [frame(seq + 1, "text.delta", { step: 1, attempt: 1, delta })]],
      { onHalt: (seq) => [frame(seq + 1, "done", {})] }
    ),
    Stream.encodeText
  )

const app = Effect.gen(function* () {
  const request = yield* HttpServerRequest.HttpServerRequest
  const { question, preferences } = (yield* request.json) as unknown as PlanRequest
  const model = preferences.model.slice(preferences.model.indexOf("/") + 1)
  const answer = yield* HttpClientRequest.post(`${provider}/v1/chat/completions`).pipe(
    HttpClientRequest.bodyJsonUnsafe({ model, stream: true, messages: [{ role: "user", content: question }] }),
    HttpClient.execute
  )
  return HttpServerResponse.stream(relay(answer.stream), {
    contentType: "text/event-stream",
    headers: { "cache-control": "no-cache, no-transform" }
  })
})

const announced = HttpServer.addressFormattedWith((address) => Effect.sync(() => console.log(address)))

HttpServer.serve(app).pipe(
  Layer.provideMerge(Layer.effectDiscard(announced)),
  Layer.provide(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })),
  Layer.provide(NodeHttpClient.layerUndici),
  Layer.launch,
  NodeRuntime.runMain
)
