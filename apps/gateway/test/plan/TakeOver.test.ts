import { stall, until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Latch, Stream } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post } from "../http/RunningGateway.ts"
import { settled } from "./Cluster.ts"
import { databases } from "./Databases.ts"
import { ask, get, replay, start } from "./GatewayProcess.ts"
import { checkStream } from "./Storm.ts"

/** A plan of a gateway that is killed and started again with this configuration; nobody reads it. */
const killed = Effect.fnUntraced(function* (config: string) {
  const proceed = Latch.makeUnsafe(false)
  const host = yield* ChatHost.make(() => [say("half "), until(Effect.asVoid(proceed.await)), say("whole")])
  const provider = yield* (yield* Network).serve(host)
  const folder = yield* folderOf({ "bowline.yaml": config })
  const settings = {
    ...(yield* databases.postgres),
    BOWLINE_LEASE_TTL: "1s",
    OPENAI_BASE_URL: `${provider.url}/v1`,
    BOWLINE_MODEL: "openai/scripted"
  }
  const first = yield* start(settings)
  const seen = yield* ask(first.url, { question: "?" }).pipe(
    Stream.tap(({ event }) => (event === "text.delta" ? first.kill("SIGKILL") : Effect.void)),
    Stream.runCollect
  )
  const { url } = yield* start({ ...settings, BOWLINE_CONFIG: join(folder, "bowline.yaml") })
  return { url, id: String(seen[0]?.data["plan_id"]), proceed: proceed.open }
})

describe("a plan of a gateway that was killed", () => {
  it.live("is not resumed where the configuration says so", () =>
    Effect.gen(function* () {
      const { id, url } = yield* killed("plans: { resume: false }")
      const { error, state } = yield* settled(url, id)
      assert.strictEqual(state, "failed")
      assert.deepInclude(error, { code: "interrupted", retryable: true })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("asks its provider with the sampling of its caller, as before", () =>
    Effect.gen(function* () {
      const provider = yield* (yield* Network).serve(yield* ChatHost.make(() => [stall]))
      const settings = {
        ...(yield* databases.postgres),
        BOWLINE_LEASE_TTL: "1s",
        OPENAI_BASE_URL: `${provider.url}/v1`,
        BOWLINE_MODEL: "openai/gpt-oss-120b"
      }
      const first = yield* start(settings)
      const sampling = { temperature: 1.5, top_p: 0.5, stop: ["END"], seed: 7, reasoning_effort: "low" }
      const body = { model: "bowline", messages: [{ role: "user", content: "?" }], stream: true, max_tokens: 50 }
      const asking = post(`${first.url}/v1/chat/completions`, { ...body, ...sampling })
      yield* Effect.forkChild(Effect.exit(asking), { startImmediately: true })
      yield* provider.requests.awaitCount(1)
      yield* first.kill("SIGKILL")
      yield* start(settings)
      for (const { body } of yield* provider.requests.awaitCount(2)) {
        assert.deepInclude(JSON.parse(body), { ...sampling, max_tokens: 50 })
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("ends when no reader comes in the configured time, which is long by default", () =>
    Effect.gen(function* () {
      const [short, long] = yield* Effect.all([killed("streams: { takeover_grace: 1s }"), killed("{}")], {
        concurrency: 2
      })
      assert.deepInclude((yield* settled(short.url, short.id))["error"], { code: "aborted", reason: "disconnect" })
      assert.strictEqual((yield* get(long.url, `/plans/${long.id}`))["state"], "running")
      yield* long.proceed
      assert.strictEqual((yield* settled(long.url, long.id))["state"], "completed")
      checkStream(yield* Stream.runCollect(replay(long.url, long.id)))
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
