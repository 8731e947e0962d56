import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"

/** A network that breaks once: it cuts the first connection behind so many bytes of its answer. */
export const cutOnce = async (url: string, bytes: number) => {
  const { hostname, port } = new URL(url)
  let left = bytes
  const server = createServer((client) => {
    const gateway = connect(Number(port), hostname)
    const drop = () => {
      client.destroy()
      gateway.destroy()
    }
    client.on("error", drop).pipe(gateway).on("error", drop)
    gateway.on("end", () => client.end())
    gateway.on("data", (chunk) => {
      if (left > chunk.length) left -= chunk.length
      else if (left >= 0) {
        client.write(chunk.subarray(0, left), drop)
        left = -1
        return
      }
      client.write(chunk)
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port: own } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${own}`, close: () => void server.close() }
}
