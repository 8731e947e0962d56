import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { until, wait } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Schedule, Stream } from "effect"
import { readFile } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import { bowline } from "../cli/Bowline.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { databases, newPostgres } from "../plan/Databases.ts"
import { askForText, get, logged, start, toFrames } from "../plan/GatewayProcess.ts"
import * as HandingOver from "../plan/HandingOver.ts"

/** How many workers there are, how many streams are open when one of them is killed, and how many callers ask while all of them are restarted. */
const workers = Number(process.env["BOWLINE_WORKERS_TESTED"] ?? 2)
const streams = Number(process.env["BOWLINE_WORKER_STREAMS"] ?? 24)
const callers = 2 * workers

const words = 40

const providerOf = Effect.fnUntraced(function* (script: Script) {
  const { url } = yield* (yield* Network).serve(yield* ChatHost.make(script))
  return { OPENAI_BASE_URL: `${url}/v1`, BOWLINE_MODEL: "openai/scripted" }
})

/** A provider that speaks for a few seconds. */
const provider = providerOf((asked) => [
  ...Array.from({ length: words }, (_, word) => [say(`word${word} `), wait("100 millis")]).flat(),
  say(`${question(asked)} is whole`)
])

const text = (url: string) => Effect.promise(async () => (await fetch(url)).text())

/** When the processes of all workers started, as their metrics tell, once both listen. */
const startTimes = (url: string) =>
  text(`${url}/metrics`).pipe(
    Effect.map((metrics) =>
      Array.from(
        { length: workers },
        (_, place) => new RegExp(`^process_start_time_seconds{worker="${place + 1}"} (\\S+)$`, "m").exec(metrics)?.[1]
      )
    ),
    Effect.repeat({ while: (times) => times.includes(undefined), schedule: Schedule.spaced("50 millis") })
  )

/** The processes of the workers. */
const pidsOf = (supervisor: number) =>
  Effect.promise(async () => {
    const children = await readFile(`/proc/${supervisor}/task/${supervisor}/children`, "utf8")
    return children.trim().split(" ").map(Number)
  })

describe("bowline serve --workers", () => {
  it.live("loses nothing when one of them is killed, and replaces it", () =>
    Effect.gen(function* () {
      const isKilled = Latch.makeUnsafe(false)
      const speaking = yield* providerOf((asked) => [
        say("word0 "),
        until(isKilled.await),
        say(`word1 ${question(asked)} is whole`)
      ])
      // All workers find a database without tables.
      const settings = { ...(yield* newPostgres), ...speaking, BOWLINE_WORKERS: String(workers) }
      const gateway = yield* start({ ...settings, BOWLINE_LEASE_TTL: "2s" })
      const { pid, url } = gateway
      const before = yield* startTimes(url)
      const plans = Array.from({ length: streams }, (_, at) => ({
        name: `plan ${at}`,
        mark: /^event: text\.delta$/m,
        isKept: true,
        body: { question: `plan ${at}`, preferences: { on_disconnect: "continue" } }
      }))
      const readings = yield* Effect.forEach(plans, (plan) => HandingOver.read(url, plan), { concurrency: "unbounded" })
      const [victim = 0] = yield* pidsOf(pid)
      process.kill(victim, "SIGKILL")
      yield* isKilled.open
      const texts = yield* Fiber.joinAll(readings)
      const cut = texts.filter((text) => !text.includes("event: done"))
      assert.isAbove(cut.length, 0)
      assert.isBelow(cut.length, streams)
      for (const [at, plan] of plans.entries()) {
        const seen = toFrames(texts[at] ?? "")
        const frames = seen.at(-1)?.event === "done" ? seen : yield* HandingOver.readOn(url, seen)
        assert.deepStrictEqual(
          frames.map(({ id }) => id),
          frames.map((_, index) => index + 1)
        )
        const [final, done] = frames.slice(-2)
        assert.deepStrictEqual([final?.event, done?.event], ["final", "done"])
        assert.match(String(final?.data["text"]), new RegExp(`word0 .+ ${plan.name} is whole$`))
      }
      yield* logged(gateway, '"worker_died"')
      const after = yield* startTimes(url)
      assert.lengthOf(
        after.filter((time) => !before.includes(time)),
        1
      )
      assert.include(yield* text(`${url}/metrics`), 'bowline_workers_restarts_total{worker="supervisor"} 1')
      assert.strictEqual(yield* gateway.kill("SIGTERM"), 0)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("restarts all of them on SIGHUP without one refused request", () =>
    Effect.gen(function* () {
      const settings = { ...(yield* databases.postgres), ...(yield* provider), BOWLINE_WORKERS: String(workers) }
      // A worker that leaves waits until its idle connections are closed.
      const folder = yield* folderOf({ "gateway.yaml": "http: { keep_alive_timeout: 5s }" })
      const gateway = yield* start({
        ...settings,
        BOWLINE_CONFIG: join(folder, "gateway.yaml"),
        BOWLINE_SHUTDOWN_GRACE: "20s"
      })
      const { url } = gateway
      const before = yield* startTimes(url)
      let asked = 0
      let isOver = false
      // Each keeps its connections, as clients do.
      const asking = yield* Effect.forEach(
        Array.from({ length: callers }),
        () =>
          Effect.gen(function* () {
            while (!isOver) {
              asked++
              const answer = yield* get(url, "/plan", { question: "Short?", preferences: { max_steps: 1 } })
              assert.strictEqual(answer["state"] ?? answer["status"], "completed", JSON.stringify(answer))
            }
          }).pipe(Effect.forkScoped),
        { concurrency: "unbounded" }
      )
      const streamed = yield* Effect.forkScoped(Stream.runCollect(askForText(url, { question: "Long?" })))
      yield* gateway.signal("SIGHUP")
      yield* logged(gateway, "workers_restarted")
      // On a slow machine a caller has asked once by now.
      yield* Effect.repeat(
        Effect.sync(() => asked),
        { until: (asked) => asked > 2 * callers, schedule: Schedule.spaced("20 millis") }
      )
      isOver = true
      yield* Fiber.joinAll(asking)
      assert.include((yield* Fiber.join(streamed)).join(""), "event: final")
      const after = yield* startTimes(url)
      for (const time of after) assert.notInclude(before, time)
      assert.strictEqual(yield* gateway.kill("SIGTERM"), 0)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("says once why none can listen", () =>
    Effect.gen(function* () {
      const server = createServer()
      const port = yield* Effect.promise(
        () =>
          new Promise<number>((resolve) => {
            server.listen(0, "127.0.0.1", () => {
              const address = server.address()
              resolve(typeof address === "object" && address !== null ? address.port : 0)
            })
          })
      )
      yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
      const environment = { ...(yield* databases.postgres), ...(yield* provider), BOWLINE_PORT: String(port) }
      const { code, stderr } = yield* (yield* bowline(["serve", "--workers", "2"], environment)).ended
      assert.strictEqual(code, 1)
      assert.lengthOf(stderr.match(/Cannot listen/g) ?? [], 1)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("needs a Postgres server", () =>
    Effect.gen(function* () {
      const { ended } = yield* bowline(["serve", "--workers", "auto", "--demo"], {})
      const { code, stderr } = yield* ended
      assert.strictEqual(code, 78)
      assert.match(stderr, /^--workers: Expected 1, or a Postgres server in DATABASE_URL: .+\n$/)
    })
  )
})
