import { Effect, Inspectable, Option, Pipeable, Schema, Stream } from "effect"
import { Cookies, Headers, HttpClientError, HttpClientResponse, HttpIncomingMessage, UrlParams } from "effect/http"
import type { HttpClientRequest } from "effect/http"
import type { HostResponse } from "../Host.ts"

type Bytes = Stream.Stream<Uint8Array, HttpClientError.HttpClientError>
type Body<A> = Effect.Effect<A, HttpClientError.HttpClientError>

const decodeJson = Schema.decodeEffect(Schema.fromJsonString(Schema.Json))

/** A response with an Effect stream as its body: the `TestClock` does not see the waits of a `ReadableStream`. */
export class MemoryResponse extends Inspectable.Class implements HttpClientResponse.HttpClientResponse {
  readonly [HttpIncomingMessage.TypeId]: typeof HttpIncomingMessage.TypeId = HttpIncomingMessage.TypeId
  readonly [HttpClientResponse.TypeId]: typeof HttpClientResponse.TypeId = HttpClientResponse.TypeId
  readonly request: HttpClientRequest.HttpClientRequest
  readonly url: string
  readonly status: number
  readonly headers: Headers.Headers
  readonly cookies = Cookies.empty
  readonly remoteAddress = Option.none<string>()
  readonly stream: Bytes
  readonly arrayBuffer: Body<ArrayBuffer>

  constructor(
    request: HttpClientRequest.HttpClientRequest,
    url: URL,
    head: HostResponse,
    stream: (response: HttpClientResponse.HttpClientResponse) => Bytes
  ) {
    super()
    this.request = request
    this.url = url.href
    this.status = head.status
    this.headers = Headers.fromInput(head.headers)
    this.stream = stream(this)
    this.arrayBuffer = Effect.runSync(Effect.cached(Effect.map(Stream.runCollect(this.stream), concat)))
  }

  get text(): Body<string> {
    return Effect.map(this.arrayBuffer, (bytes) => new TextDecoder().decode(bytes))
  }

  get json(): Body<Schema.Json> {
    return Effect.flatMap(this.text, (text) =>
      Effect.mapError(decodeJson(text === "" ? "null" : text), (cause) => this.decodeError(cause))
    )
  }

  get urlParamsBody(): Body<UrlParams.UrlParams> {
    return Effect.map(this.text, (text) => UrlParams.fromInput(new URLSearchParams(text)))
  }

  get formData(): Body<never> {
    return Effect.fail(this.decodeError("A response in memory has no form data"))
  }

  get upgrade(): Body<never> {
    return Effect.fail(this.decodeError("A response in memory cannot be upgraded"))
  }

  private decodeError(cause: unknown): HttpClientError.HttpClientError {
    return new HttpClientError.HttpClientError({
      reason: new HttpClientError.DecodeError({ request: this.request, response: this, cause })
    })
  }

  toJSON(): unknown {
    return HttpIncomingMessage.inspect(this, { _id: "HttpClientResponse", request: this.request, status: this.status })
  }

  pipe() {
    return Pipeable.pipeArguments(this, arguments)
  }
}

const concat = (chunks: ReadonlyArray<Uint8Array>): ArrayBuffer => {
  const bytes = new Uint8Array(chunks.reduce((size, chunk) => size + chunk.length, 0))
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes.buffer
}
