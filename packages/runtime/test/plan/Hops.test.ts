import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { say } from "@bowline/testing/provider/Turn"
import { layer, readAll } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { GatewayId } from "../../src/config/GatewayId.ts"
import { direct, type PeerClient, type Route } from "../../src/remote/PeerClient.ts"
import * as Hops from "../../src/plan/Hops.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { askBob, bob } from "./Bob.ts"

const request = (max_hops: number) =>
  Effect.orDie(Schema.decodeUnknownEffect(PlanRequest)({ question: "?", agents: [bob], preferences: { max_hops } }))

const start = Effect.fnUntraced(function* (max_hops: number, came?: Route) {
  return yield* (yield* PlanStreams).start({ caller: anonymous, request: yield* request(max_hops), route: came })
})

const routes: Array<Route> = []
const call: PeerClient["Service"]["call"] = ({ route }) =>
  Effect.sync(() => {
    routes.push(route)
    return { state: "completed" as const, content: "", verified: "unknown" as const }
  })

describe("Hops", () => {
  it.effect("sends a plan on with one hop more, and with the gateway's own id after those of the others", () =>
    Effect.gen(function* () {
      const gateway = yield* GatewayId
      for (const came of [undefined, { hops: 2, via: ["a", "b"] }]) {
        const { frames } = yield* start(2, came)
        yield* readAll(frames)
      }
      assert.deepStrictEqual(routes, [
        { hops: 1, via: [gateway] },
        { hops: 3, via: ["a", "b", gateway] }
      ])
    }).pipe(
      Effect.provide(layer({ script: [askBob, [say("ok")], askBob, [say("ok")]], peers: { call } })),
      Effect.scoped
    )
  )

  it.effect("refuses a plan that has come through more gateways than it may, or back, and stores nothing of it", () =>
    Effect.gen(function* () {
      const gateway = yield* GatewayId
      const far = yield* Effect.flip(start(0, { hops: 1, via: ["a"] }))
      assert.deepInclude(far, { _tag: "HopsExceeded" })
      assert.match(far.message, /hops 1, max_hops 0/)
      const back = yield* Effect.flip(start(16, { hops: 2, via: [gateway, "a"] }))
      assert.deepInclude(back, { _tag: "HopsExceeded", message: "The plan has come back to this gateway" })
      const { items } = yield* (yield* Plans).list(anonymous, {}, { limit: 10 })
      assert.deepStrictEqual(items, [])
    }).pipe(Effect.provide(layer({ script: [] })), Effect.scoped)
  )

  it("lets a plan through that has come as far as it may, from whichever gateway", () => {
    assert.isUndefined(Hops.refusal(direct, "g", 0))
    assert.isUndefined(Hops.refusal({ hops: 5, via: ["a", "gg"] }, "g", 5))
    assert.isDefined(Hops.refusal({ hops: 6, via: [] }, "g", 5))
  })
})
