import type { HostResponse } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { Effect, Stream } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { mutual, pem, terminate } from "../egress/MutualTls.ts"

const picture = Buffer.from(SampleFile.png(1_200, 800))

const response = (status: number, headers: HostResponse["headers"], body = Stream.succeed(picture)) => ({
  status,
  headers,
  body: status === 200 ? body : Stream.empty
})

/** What a server of files answers, by the path that it is asked for. */
const served = (path: string): HostResponse => {
  const moved = (location: string) => response(302, { location })
  switch (path) {
    case "/a%20knot.png":
      return response(200, { "content-type": "image/png" })
    case "/unsaid":
      return response(200, { "content-type": "binary/octet-stream" })
    case "/moved":
      return moved("/a%20knot.png")
    case "/moved/on":
      return moved("/moved/on")
    case "/moved/plain":
      return moved("http://localhost/a.png")
    case "/lie.jpg":
      return response(200, { "content-type": "image/jpeg" })
    case "/packed":
      return response(200, { "content-type": "image/png", "content-encoding": "gzip" })
    case "/huge":
      return response(200, { "content-type": "image/png", "content-length": "33554433" }, Stream.never)
    case "/endless":
      return response(200, { "content-type": "text/plain" }, Stream.forever(Stream.succeed(Buffer.alloc(65_536))))
    default:
      return response(404, {})
  }
}

/** A server of files behind TLS, and the configuration that lets a gateway reach it. */
export const fileServer = Effect.gen(function* () {
  const { serve } = yield* Network
  const { url } = yield* serve((request) => Effect.succeed(served(request.url.pathname)))
  const { port } = yield* terminate(url, "localhost")
  const names = ["client", "client-key", "authority"]
  const folder = yield* folderOf({
    ...Object.fromEntries(names.map((name) => [`${name}.pem`, pem(name)])),
    "gateway.json": JSON.stringify({ peers: { hosts: { localhost: { tls: mutual } } } })
  })
  return { host: `localhost:${port}`, environment: { BOWLINE_CONFIG: join(folder, "gateway.json") } }
})
