import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { wait } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { question } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Config, Console, Effect, Fiber, Option, Random } from "effect"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { operationsOf } from "../http/Operations.ts"
import { eventsOf, payloads, post, send } from "../http/RunningGateway.ts"
import { databases } from "../plan/Databases.ts"
import * as GatewayMemory from "../plan/GatewayMemory.ts"
import { start } from "../plan/GatewayProcess.ts"
import { a2aOperations } from "./A2aOperations.ts"
import { fromSeed } from "./Draw.ts"
import { exchange } from "./Exchange.ts"
import type { Target } from "./HostileMessage.ts"
import { draw } from "./HostileRequest.ts"
import { problemsOf } from "./Judge.ts"

/** How much more the thread that serves requests may refer to behind all requests than behind the first ones, in MiB. The table of a tokenizer has 20 of them. */
const maxLeft = 32
const concurrency = 24

const words = Array.from({ length: 20 }, (_, index) => `word ${index} `)
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })

/** A gateway with short time-outs on Postgres, which a plan of `good` reaches through a provider that takes its time. */
const startGateway = Effect.gen(function* () {
  const network = yield* Network
  const provider = yield* network.serve(
    yield* ChatHost.make((asked) =>
      question(asked).startsWith("good") ? words.flatMap((word) => [wait("10 millis"), say(word)]) : [say("done")]
    )
  )
  const folder = yield* folderOf({ "bowline.yaml": "http: { headers_timeout: 3s, request_timeout: 4s }" })
  return yield* start({
    ...(yield* databases.postgres),
    BOWLINE_CONFIG: join(folder, "bowline.yaml"),
    BOWLINE_API_KEYS: "good=key-of-good,bad=key-of-bad",
    OPENAI_BASE_URL: `${provider.url}/v1`,
    BOWLINE_MODEL: "openai/scripted",
    ...GatewayMemory.environment
  })
})

/** Asks again and again while something runs, and reads each stream to its end. */
const keepAsking = Effect.fnUntraced(function* (url: string, isOver: () => boolean) {
  let plans = 0
  const problems: Array<string> = []
  const ask = Effect.gen(function* () {
    const body = { question: `good ${plans++}`, session_id: "theirs" }
    const { status, text } = yield* post(`${url}/plan`, body, { ...by("good"), accept: "text/event-stream" })
    const [final] = payloads(text, "final") as ReadonlyArray<{ readonly text: string } | undefined>
    if (status !== 200 || final?.text !== words.join("") || eventsOf(text).at(-1) !== "done") {
      problems.push(`A plan of another caller is disturbed: ${status} ${text.slice(-500)}`)
    }
    const health = yield* send(`${url}/health`)
    if (health.status !== 200) problems.push(`/health: ${health.status}`)
  })
  yield* Effect.repeat(ask, { until: isOver })
  return { plans, problems }
})

it.live(
  "hostile requests get an answer that says what is wrong, and leave nothing behind",
  () =>
    Effect.gen(function* () {
      const requests = yield* Config.Int("BOWLINE_REQUESTS").pipe(Config.withDefault(100))
      const seed = yield* Config.String("BOWLINE_FUZZ_SEED").pipe(Config.withDefault(`${yield* Random.nextInt}`))
      const only = yield* Config.option(Config.Int("BOWLINE_FUZZ_REQUEST"))
      yield* Console.log(`${requests} hostile requests, BOWLINE_FUZZ_SEED=${seed}`)
      const gateway = yield* startGateway
      const { lines, pid, url } = gateway
      const ids = Effect.fnUntraced(function* (name: string) {
        const { body } = yield* post(`${url}/plan`, { question: "?", session_id: "named" }, by(name))
        return [String(body["plan_id"]), String(body["session_id"])] as const
      })
      const { definitions, operations } = yield* operationsOf(url)
      const target: Target = {
        definitions,
        operations: [...operations, ...a2aOperations],
        key: "key-of-bad",
        ids: ["named", "openai", ...(yield* ids("bad")), ...(yield* ids("good"))]
      }
      const problems: Array<string> = []
      const statuses = new Map<number, number>()
      const play = Effect.fnUntraced(function* (number: number) {
        const request = fromSeed(`${seed}/${number}`, (drawing) => draw(drawing, target))
        if (Option.isSome(only)) yield* Console.log(Buffer.concat(request.pieces).toString("latin1").slice(0, 10_000))
        const answers = yield* Effect.timeoutOption(exchange(url, request), "1 minute")
        const found = Option.match(answers, { onNone: () => ["no answer"], onSome: (all) => problemsOf(request, all) })
        if (Option.isSome(only)) yield* Console.log(answers)
        for (const { status } of Option.getOrElse(answers, () => []))
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
        for (const problem of found) {
          const line = `${problem}: ${request.what}\n  BOWLINE_FUZZ_SEED=${seed} BOWLINE_FUZZ_REQUEST=${number}`
          problems.push(line)
          yield* Console.error(line)
        }
      })
      if (Option.isSome(only)) {
        yield* play(only.value)
        return assert.deepStrictEqual(problems, [])
      }
      const openFiles = () => readdirSync(`/proc/${pid}/fd`).length
      const range = (from: number, to: number) =>
        Effect.forEach(
          Array.from({ length: to - from }, (_, index) => from + index),
          play,
          { concurrency, discard: true }
        )
      let isOver = false
      const asking = yield* Effect.forkChild(
        Effect.all(
          [0, 1, 2].map(() => keepAsking(url, () => isOver)),
          { concurrency: "unbounded" }
        )
      )
      // What is loaded for any request is there behind the first ones.
      const first = Math.min(2_000, requests / 2)
      yield* range(0, first)
      const [retained, files, resident] = [
        yield* GatewayMemory.retainedBy(gateway),
        openFiles(),
        GatewayMemory.residentOf(gateway)
      ]
      yield* range(first, requests)
      isOver = true
      const asked = yield* Fiber.join(asking)
      const left = (yield* GatewayMemory.retainedBy(gateway)) - retained
      yield* Console.log(
        `${JSON.stringify(Object.fromEntries(statuses))}, ${asked.reduce((sum, { plans }) => sum + plans, 0)} plans of others, ${left.toFixed(1)} MiB more in use, resident ${resident.now.toFixed(0)} to ${GatewayMemory.residentOf(gateway).now.toFixed(0)} MiB, ${openFiles() - files} more files, BOWLINE_FUZZ_SEED=${seed}`
      )
      problems.push(
        ...asked.flatMap((one) => one.problems),
        ...lines.filter((line) => /"level":"(ERROR|FATAL)"/i.test(line))
      )
      assert.strictEqual(problems.slice(0, 10).join("\n"), "")
      assert.isBelow(left, maxLeft)
    }).pipe(Effect.provide(LoopbackNetwork.layer)),
  3_600_000
)
