import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { type Act, completes, says, stays, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { join } from "node:path"
import { send } from "../http/RunningGateway.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { settled } from "./Cluster.ts"
import { databases, dump, keptRequests } from "./Databases.ts"
import { ask, logged, replay, start } from "./GatewayProcess.ts"
import { checkStream } from "./Storm.ts"

const token = "planted-secret"

/** A plan of the preset `knots` whose gateway is killed while it waits for the peer, and the settings of the next one. */
const killed = Effect.fnUntraced(function* (...acts: ReadonlyArray<Act>) {
  const network = yield* Network
  const host = yield* ChatHost.make((asked) =>
    results(asked).length === 0 ? [callTool("rigger_ask", { input: "?" })] : [say("whole")]
  )
  const provider = yield* network.serve(host)
  const peer = yield* ScriptedPeer.serve({ token, acts: [says("hm"), ...acts] })
  const agent = { name: "rigger", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }
  const inline = { type: "bearer", token: "$PEER_TOKEN" }
  const file = { presets: { knots: { agents: [{ ...agent, auth: inline }], preferences: { max_steps: 7 } }, sky: {} } }
  const folder = yield* folderOf({
    "with.json": JSON.stringify(file),
    "without.json": JSON.stringify({ presets: { sky: {} } }),
    "ending.json": JSON.stringify({ ...file, plans: { resume: false } })
  })
  const settings = {
    ...(yield* databases.postgres),
    BOWLINE_LEASE_TTL: "1s",
    OPENAI_BASE_URL: `${provider.url}/v1`,
    BOWLINE_MODEL: "openai/scripted",
    LOG_LEVEL: "trace",
    PEER_TOKEN: token
  }
  const configured = (name: string) => ({ ...settings, BOWLINE_CONFIG: join(folder, name) })
  const first = yield* start(configured("with.json"))
  const asking = { question: "?", preset: "knots", session_id: "s" }
  const seen = yield* ask(first.url, asking).pipe(
    // The remote task is known and stored then.
    Stream.tap(({ event }) => (event === "task.progress" ? first.kill("SIGKILL") : Effect.void)),
    Stream.runCollect
  )
  const id = String(seen[0]?.data["plan_id"])
  return { id, first, peer, configured, databaseUrl: settings.DATABASE_URL }
})

describe("a plan of a preset with a secret", () => {
  it.live("is resumed after a kill with the secret of the configuration, which is stored and shown nowhere", () =>
    Effect.gen(function* () {
      const { configured, databaseUrl, first, id, peer } = yield* killed(stays("1 second"), completes("done"))
      const [kept] = yield* keptRequests(databaseUrl)
      assert.deepInclude(kept?.request, { preset: "knots", agents: [] })
      assert.isNull(kept?.secrets)
      const { lines, url } = yield* start(configured("with.json"))
      const plan = yield* settled(url, id)
      assert.deepInclude(plan, { state: "completed", preset: "knots", steps: 2 })
      const frames = yield* Stream.runCollect(replay(url, id))
      checkStream(frames)
      const finished = frames.filter(({ event }) => event === "task.finished")
      assert.deepStrictEqual(
        finished.map(({ data }) => data["state"]),
        ["completed"]
      )
      assert.lengthOf((yield* peer.seen).sends, 1)
      const paths = ["/presets", "/plans", `/plans/${id}`, "/sessions", "/sessions/s", "/sessions/s/messages", "/peers"]
      const shown = yield* Effect.forEach(paths, (path) => send(url + path))
      const tables = yield* dump(databaseUrl)
      const said = [shown.map(({ text }) => text), frames, plan, [...tables], first.lines, lines]
      assert.include(JSON.stringify(said), "rigger_ask")
      assert.notInclude(JSON.stringify(said), token)
      // Callers see the names of what a preset has, and not where it is.
      assert.notInclude(JSON.stringify([shown.slice(0, -1).map(({ text }) => text), frames]), peer.url)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("ends where the next configuration has no such preset", () =>
    Effect.gen(function* () {
      const { configured, id } = yield* killed(stuck)
      const next = yield* start(configured("without.json"))
      const { error, state } = yield* settled(next.url, id)
      assert.strictEqual(state, "failed")
      assert.deepInclude(error, { code: "interrupted", retryable: true })
      yield* logged(next, "its preset knots does not exist, or its caller may not use it")
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("has its remote task cancelled with that secret where no process resumes it", () =>
    Effect.gen(function* () {
      const { configured, id, peer } = yield* killed(stuck)
      const { url } = yield* start(configured("ending.json"))
      assert.deepInclude((yield* settled(url, id))["error"], { code: "interrupted" })
      yield* peer.cancelled
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
