import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { cpSync, existsSync, readdirSync, rmSync } from "node:fs"
import { databases } from "./Databases.ts"
import * as GatewayMemory from "./GatewayMemory.ts"
import { get, sources, start } from "./GatewayProcess.ts"

/** As many as let V8 optimize what it wants to. */
const plans = 200

/** What a process may have in memory, in MiB. From sources that nobody has compiled yet it has 390 to 470, more where two cores are busy, and later some 395. */
const limit = 500

describe("a gateway's process", () => {
  it.live.skipIf(!existsSync("/proc/self"))(
    "never has more than 500 MiB in memory with the embedded database, at its first start and later, on a copy that has all files",
    () =>
      Effect.gen(function* () {
        const provider = yield* (yield* Network).serve(yield* ChatHost.make(() => [say("That is all.")]))
        const settings = {
          OPENAI_BASE_URL: `${provider.url}/v1`,
          BOWLINE_MODEL: "openai/scripted"
        }
        const peakOn = Effect.fnUntraced(function* (BOWLINE_DATA_DIR: string, use: (url: string) => Promise<void>) {
          const gateway = yield* start({ ...settings, BOWLINE_DATA_DIR }, sources)
          for (let plan = 0; plan < plans; plan++) yield* get(gateway.url, "/plan", { question: "What is there?" })
          yield* Effect.promise(() => use(gateway.url))
          return GatewayMemory.residentOf(gateway).peak
        }, Effect.scoped)
        const { BOWLINE_DATA_DIR: folder } = yield* databases.embedded
        const { BOWLINE_DATA_DIR: backup } = yield* databases.embedded
        const bytes = Buffer.alloc(600_000, 200)
        const first = yield* peakOn(folder, async (url) => {
          assert.strictEqual((await fetch(`${url}/files`, { method: "POST", body: bytes })).status, 201)
        })
        assert.isAtMost(first, limit)
        cpSync(folder, backup, { recursive: true })
        rmSync(folder, { recursive: true })
        const later = yield* peakOn(backup, async (url) => {
          const { files } = (await (await fetch(`${url}/files`)).json()) as {
            files: ReadonlyArray<{ file_id: string }>
          }
          const content = await fetch(`${url}/files/${files[0]?.file_id}/content`)
          assert.isTrue(bytes.equals(Buffer.from(await content.arrayBuffer())))
        })
        assert.isAtMost(later, limit)
      }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live.skipIf(!existsSync("/proc/self"))("has threads for names that no name server answers, besides others", () =>
    Effect.gen(function* () {
      const { pid } = yield* start({ BOWLINE_DATA_DIR: "memory:" }, sources)
      assert.isAtLeast(readdirSync(`/proc/${pid}/task`).length, 32)
    }).pipe(Effect.scoped)
  )

  it.live("keeps what it has compiled for the next start before it ends, since it may be killed", () =>
    Effect.gen(function* () {
      const { BOWLINE_DATA_DIR: folder } = yield* databases.embedded
      yield* start({ BOWLINE_DATA_DIR: "memory:", NODE_COMPILE_CACHE: folder }, sources)
      yield* Effect.sync(() => readdirSync(folder, { recursive: true }).length).pipe(
        Effect.repeat({ until: (files) => files > 100, schedule: Schedule.spaced("50 millis") })
      )
    }).pipe(Effect.scoped)
  )
})
