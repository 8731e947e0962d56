import { once } from "node:events"
import { connect, createServer } from "node:net"

/**
 * A network between a client and a gateway that breaks: each of the first `cuts` connections ends, without a word, behind so many bytes of
 * answers.
 */
export const startProxy = async (gateway: string, cuts: number, bytes: number) => {
  const { hostname, port } = new URL(gateway)
  let left = cuts
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    let room = left > 0 ? bytes : Infinity
    upstream.on("data", (chunk) => {
      client.write(chunk.subarray(0, Math.min(chunk.length, room)))
      room -= chunk.length
      if (room > 0) return
      left--
      client.end(end)
    })
    client.pipe(upstream)
    for (const socket of [client, upstream]) socket.on("error", end).on("close", end)
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("The proxy has no port")
  return { url: `http://127.0.0.1:${address.port}`, stop: () => server.close() }
}
