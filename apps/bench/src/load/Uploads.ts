import { randomBytes } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { Agent, request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { type Child, startGateway } from "../process/Child.ts"
import { cores } from "../process/Cores.ts"
import { findPostgres, keepFilledStore } from "../process/PostgresServer.ts"
import { align } from "../report/ReportTable.ts"
import { now } from "../server/Traffic.ts"
import { watch } from "./Caller.ts"
import { median, percentile99 } from "./LoadWindow.ts"

/** Bytes of each file. */
const size = 33_554_432

/** Streams beside the uploads, and the words of an answer, 50 a second. */
const streams = 100
const words = 500

/** At most: MiB that the process grows by for each upload, and by how much later a word may come, in ms. */
const limits = { memory: 2, late: 100 } as const

const block = randomBytes(65_536)

/** Sends one file of bytes that no other has, as fast as the gateway takes it. */
const upload = (url: string, agent: Agent): Promise<void> =>
  new Promise((resolve, reject) => {
    const headers = { "content-type": "application/octet-stream", "content-length": String(size) }
    const sending = request(`${url}/files`, { agent, method: "POST", headers }, (response) => {
      response.resume()
      response.on("end", () =>
        response.statusCode === 201 ? resolve() : reject(new Error(`An upload got ${response.statusCode}`))
      )
    })
    sending.on("error", reject)
    // The first bytes are those of no format that is known.
    let next = Buffer.concat([Buffer.alloc(4, 0xfe), randomBytes(32), block.subarray(36)])
    let left = size
    const send = (): void => {
      while (left > 0) {
        const piece = next.subarray(0, left)
        left -= piece.length
        next = block
        if (!sending.write(piece)) {
          sending.once("drain", send)
          return
        }
      }
      sending.end()
    }
    send()
  })

interface Lags {
  readonly lag: number
  readonly lag99: number
  readonly longest: number
}

/** Reads streams for as long as the work takes, and says how late their words came meanwhile. */
const besides = async (child: Child, work: () => Promise<void>): Promise<Lags> => {
  const agent = new Agent({ keepAlive: true, maxSockets: streams })
  const lags: Array<number> = []
  let isMeasured = false
  let isOver = false
  const all = Promise.all(
    Array.from({ length: streams }, async () => {
      // Callers do not come at one instant.
      await setTimeout(Math.random() * 5_000)
      while (!isOver) {
        await watch(child.url, agent, words, (at) => {
          if (isMeasured) lags.push(now() - at)
        })
      }
    })
  )
  await setTimeout(6_000)
  isMeasured = true
  await work()
  isMeasured = false
  isOver = true
  await all
  agent.destroy()
  return { lag: median(lags), lag99: percentile99(lags), longest: lags.reduce((a, b) => Math.max(a, b), 0) }
}

interface Store {
  readonly environment: { readonly [name: string]: string }
  readonly note: string
}

const onPostgres = async (running: AsyncDisposableStack): Promise<Store> => {
  const postgres = running.use(await findPostgres())
  const { url } = running.use(await keepFilledStore(postgres, 0))
  return { environment: { DATABASE_URL: url }, note: `Postgres, ${postgres.note}` }
}

const inFolder = async (running: AsyncDisposableStack): Promise<Store> => {
  const folder = await mkdtemp(join(tmpdir(), "bowline-bench-"))
  running.defer(() => rm(folder, { recursive: true, force: true }))
  return { environment: { BOWLINE_DATA_DIR: folder }, note: "the embedded database" }
}

/**
 * What so many uploads at once cost a gateway on Postgres, or on the embedded database: its memory, and how much later the words of 100 streams come than without them.
 */
export const uploads = async (
  count: number,
  environment: { readonly [name: string]: string },
  isEmbedded: boolean,
  say: (line: string) => void
): Promise<{ readonly isFine: boolean; readonly text: string }> => {
  await using running = new AsyncDisposableStack()
  const store = isEmbedded ? await inFolder(running) : await onPostgres(running)
  const quota = String(2 * count * size)
  const child = running.use(
    await startGateway({ ...environment, ...store.environment, BOWLINE_FILES_CALLER_QUOTA: quota })
  )
  const agent = new Agent({ maxSockets: count })
  // The first ones warm the process up.
  await Promise.all(Array.from({ length: 4 }, () => upload(child.url, agent)))
  say(`${streams} streams without uploads`)
  const alone = await besides(child, () => setTimeout(20_000))
  say(`${streams} streams beside ${count} uploads`)
  let [before, peak, seconds] = [0, 0, 0]
  const beside = await besides(child, async () => {
    before = (await child.usage()).resident
    let isOver = false
    const began = performance.now()
    const sent = Promise.all(Array.from({ length: count }, () => upload(child.url, agent))).finally(() => {
      isOver = true
    })
    while (!isOver) {
      peak = Math.max(peak, (await child.usage()).resident)
      await setTimeout(100)
    }
    await sent
    seconds = (performance.now() - began) / 1_000
  })
  const memory = (peak - before) / 1_024 / count
  const later = (what: keyof Lags) => beside[what] - alone[what]
  const row = (name: string, what: keyof Lags) => [
    name,
    `${alone[what].toFixed(1)} ms`,
    `${beside[what].toFixed(1)} ms`,
    `${later(what) < 0 ? "" : "+ "}${later(what).toFixed(1)} ms`
  ]
  const rows = [
    ["", "no uploads", `${count} uploads`, ""],
    row("lag of a word, median", "lag"),
    row("lag, p99", "lag99"),
    row("lag, longest", "longest")
  ]
  return {
    isFine: memory <= limits.memory && later("lag99") <= limits.late,
    text: `
${count} uploads of 32 MiB at once beside ${streams} streams of 50 words a second, on ${store.note}; Node.js ${process.version}.
Cores: ${cores.note}. Lag: the provider wrote, the caller read.

The uploads took ${seconds.toFixed(0)} s, ${((count * size) / 1_048_576 / seconds).toFixed(0)} MiB a second. The process grew by ${memory.toFixed(2)} MiB for each (${limits.memory} at most).

${align(rows)}`
  }
}
