import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { say } from "@bowline/testing/provider/Turn"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Schedule } from "effect"
import { cpSync, existsSync, readdirSync, rmSync } from "node:fs"
import { databases } from "./Databases.ts"
import * as GatewayMemory from "./GatewayMemory.ts"
import { get, sources, start } from "./GatewayProcess.ts"

/** As many as let V8 optimize what it wants to. */
const plans = 100

/** What a process may have in memory, in MiB. From sources that nobody has compiled yet it has 390 to 470, more where two cores are busy, and later some 395. */
const limit = 500

/** The first start, from sources that nobody has compiled yet, on an embedded database. */
class First extends Context.Service<
  First,
  {
    readonly gateway: Effect.Success<ReturnType<typeof start>>
    readonly settings: Readonly<Record<string, string>>
    readonly folder: string
    /** What it keeps of what it has compiled. */
    readonly compiled: string
  }
>()("@bowline/gateway/test/First") {
  static readonly layer = Layer.effect(
    First,
    Effect.gen(function* () {
      const provider = yield* (yield* Network).serve(yield* ChatHost.make(() => [say("That is all.")]))
      const { BOWLINE_DATA_DIR: folder } = yield* databases.embedded
      const { BOWLINE_DATA_DIR: compiled } = yield* databases.embedded
      const settings = {
        NODE_COMPILE_CACHE: compiled,
        OPENAI_BASE_URL: `${provider.url}/v1`,
        BOWLINE_MODEL: "openai/scripted"
      }
      const gateway = yield* start({ ...settings, BOWLINE_DATA_DIR: folder }, sources)
      return { gateway, settings, folder, compiled }
    })
  ).pipe(Layer.provide(LoopbackNetwork.layer))
}

layer(First.layer, { excludeTestServices: true })("a gateway's process", (it) => {
  it.effect("keeps what it has compiled for the next start before it ends, since it may be killed", () =>
    Effect.gen(function* () {
      const { compiled } = yield* First
      yield* Effect.sync(() => readdirSync(compiled, { recursive: true }).length).pipe(
        Effect.repeat({ until: (files) => files > 100, schedule: Schedule.spaced("50 millis") })
      )
    })
  )

  it.effect.skipIf(!existsSync("/proc/self"))("has threads for names that no name server answers, besides others", () =>
    Effect.gen(function* () {
      const { gateway } = yield* First
      assert.isAtLeast(readdirSync(`/proc/${gateway.pid}/task`).length, 32)
    })
  )

  it.effect.skipIf(!existsSync("/proc/self"))(
    "never has more than 500 MiB in memory with the embedded database, at its first start and later, on a copy that has all files",
    () =>
      Effect.gen(function* () {
        const { folder, gateway, settings } = yield* First
        const peakOf = Effect.fnUntraced(function* (of: typeof gateway, use: (url: string) => Promise<void>) {
          for (let plan = 0; plan < plans; plan++) yield* get(of.url, "/plan", { question: "What is there?" })
          yield* Effect.promise(() => use(of.url))
          const { peak } = GatewayMemory.residentOf(of)
          yield* of.kill("SIGKILL")
          return peak
        })
        const { BOWLINE_DATA_DIR: backup } = yield* databases.embedded
        const bytes = Buffer.alloc(600_000, 200)
        const first = yield* peakOf(gateway, async (url) => {
          assert.strictEqual((await fetch(`${url}/files`, { method: "POST", body: bytes })).status, 201)
        })
        assert.isAtMost(first, limit)
        cpSync(folder, backup, { recursive: true })
        rmSync(folder, { recursive: true })
        const next = yield* start({ ...settings, BOWLINE_DATA_DIR: backup }, sources)
        const later = yield* peakOf(next, async (url) => {
          const { files } = (await (await fetch(`${url}/files`)).json()) as {
            files: ReadonlyArray<{ file_id: string }>
          }
          const content = await fetch(`${url}/files/${files[0]?.file_id}/content`)
          assert.isTrue(bytes.equals(Buffer.from(await content.arrayBuffer())))
        })
        assert.isAtMost(later, limit)
      })
  )
})
