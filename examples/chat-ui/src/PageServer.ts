import { once } from "node:events"
import { createServer, type IncomingMessage, request as ask, type ServerResponse } from "node:http"
import { extname } from "node:path"
import { build } from "vite"

const types: Readonly<Record<string, string>> = { ".html": "text/html", ".js": "text/javascript" }

/** The files of the page, by their paths. */
const bundle = async (): Promise<ReadonlyMap<string, string | Uint8Array>> => {
  const built = await build({
    root: new URL("..", import.meta.url).pathname,
    configFile: false,
    logLevel: "error",
    build: { write: false }
  })
  const outputs = Array.isArray(built) ? built : "output" in built ? [built] : []
  return new Map(
    outputs.flatMap(({ output }) =>
      output.map((file) => [`/${file.fileName}`, file.type === "chunk" ? file.code : file.source] as const)
    )
  )
}

/** Whether the page itself asks: another page may have this address under a name of its own, and would ask with the key. */
const isOwn = ({ headers: { host, origin }, socket: { localPort } }: IncomingMessage): boolean =>
  [`127.0.0.1:${localPort}`, `localhost:${localPort}`].includes(host ?? "") &&
  (origin === undefined || origin === `http://${host}`)

/** Passes a request on to the gateway, as its own: with the key, which the page does not have. When the page has gone, so has the request. */
const passOn = (gateway: string, key: string | undefined, request: IncomingMessage, response: ServerResponse) => {
  const { origin: _, host: __, ...headers } = request.headers
  const own = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const onward = ask(
    new URL(request.url ?? "/", gateway),
    { method: request.method, headers: { ...headers, ...own, "sec-fetch-site": "none" } },
    (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.on("error", () => response.destroy()).pipe(response)
    }
  )
  onward.on("error", () => (response.headersSent ? response.destroy() : response.writeHead(502).end()))
  response.on("close", () => onward.destroy())
  request.pipe(onward)
}

/** Builds the page, and serves it on a free port of this machine, with the routes of the gateway that it needs. */
export const servePage = async (gateway: string, key?: string) => {
  const files = await bundle()
  const server = createServer((request, response) => {
    if (!isOwn(request)) return response.writeHead(403).end()
    const { pathname } = new URL(request.url ?? "/", "http://page")
    if (pathname.startsWith("/ui/")) return passOn(gateway, key, request, response)
    const path = pathname === "/" ? "/index.html" : pathname
    const file = files.get(path)
    if (file === undefined) return response.writeHead(404).end()
    return response.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream" }).end(file)
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { url: `http://127.0.0.1:${port}`, stop: () => server.close().closeAllConnections() }
}
