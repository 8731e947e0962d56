import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { encoder, SseFrame } from "../../src/stream/SseFrame.ts"

const ids = {
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000002")
}
const at = "2026-01-02T03:04:05.678Z"
const encode = encoder(ids)
const decode = Schema.decodeUnknownSync(SseFrame)

const events: ReadonlyArray<PlanEvent> = [
  { event: "session", data: { external_session_id: null, created: true } },
  { event: "text.delta", data: { step: 1, attempt: 1, delta: 'Grüße 🪢\r\n\u2028 "}\n\ndata: no' } },
  { event: "done", data: {} }
]
const frames = events.map(({ event, data }, i) => ({ seq: i + 1, at, event, payload: JSON.stringify(data) }))

describe("SseFrame", () => {
  it("puts the ids and the time in front of the payload's fields, also where there are none", () => {
    const head = `{"plan_id":"${ids.plan_id}","session_id":"${ids.session_id}","at":"${at}"`
    assert.strictEqual(
      encode({ seq: 7, at, event: "step", payload: '{"step":1,"attempt":1}' }),
      `id: 7\nevent: step\ndata: ${head},"step":1,"attempt":1}\n\n`
    )
    assert.strictEqual(encode({ seq: 8, at, event: "done", payload: "{}" }), `id: 8\nevent: done\ndata: ${head}}\n\n`)
  })

  it("reads back what was written, with each frame's data in one line", () => {
    for (const [index, event] of events.entries()) {
      const [id = "", name = "", data = "", ...rest] = encode(frames[index] ?? assert.fail()).split(/\r\n|\r|\n/)
      assert.deepStrictEqual(rest, ["", ""])
      assert.deepStrictEqual<unknown>(
        decode({
          id: id.replace("id: ", ""),
          event: name.replace("event: ", ""),
          data: data.replace("data: ", "")
        }),
        { id: index + 1, event: event.event, data: { ...ids, at, ...event.data } }
      )
    }
  })
})
