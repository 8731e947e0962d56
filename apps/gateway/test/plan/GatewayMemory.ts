import { Effect, Schema } from "effect"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import type { start } from "./GatewayProcess.ts"

type Gateway = Effect.Success<ReturnType<typeof start>>

const mebibyte = 1_048_576

/** With this in its environment a gateway can be told to collect its garbage. */
export const environment = { NODE_OPTIONS: "--inspect=127.0.0.1:0" }

const Usage = Schema.fromJsonString(
  Schema.Struct({ result: Schema.Struct({ usedSize: Schema.Number, backingStorageSize: Schema.Number }) })
)

/** What the process has in memory, and has had at most, in MiB. */
export const residentOf = ({ pid }: Gateway) => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8")
  const read = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1_024
  return { now: read("VmRSS"), peak: read("VmHWM") }
}

/** What the thread that serves requests still refers to once its garbage is collected, in MiB. */
export const retainedBy = Effect.fnUntraced(function* ({ lines }: Gateway) {
  const url = lines.map((line) => /ws:\/\/\S+/.exec(line)?.[0]).find((found) => found !== undefined) ?? ""
  const socket = yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const socket = new WebSocket(url)
      await once(socket, "open")
      return socket
    }),
    (socket) => Effect.sync(() => socket.close())
  )
  const call = (method: string) =>
    Effect.promise(async () => {
      const answer = once(socket, "message") as Promise<ReadonlyArray<MessageEvent>>
      socket.send(JSON.stringify({ id: 1, method }))
      const [event] = await answer
      const text: unknown = event?.data
      return text
    })
  yield* call("HeapProfiler.collectGarbage")
  const { result } = yield* Effect.orDie(Schema.decodeUnknownEffect(Usage)(yield* call("Runtime.getHeapUsage")))
  return (result.usedSize + result.backingStorageSize) / mebibyte
}, Effect.scoped)
