import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { decode, encoder, ping, reconnect } from "../../src/stream/SseFrame.ts"

const ids = {
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000002")
}
const at = "2026-01-02T03:04:05.678Z"
const encode = encoder(ids)

const events: ReadonlyArray<PlanEvent> = [
  { event: "session", data: { external_session_id: null, created: true } },
  { event: "text.delta", data: { step: 1, attempt: 1, delta: 'Grüße 🪢\r\n\u2028 "}\n\ndata: no' } },
  { event: "done", data: {} }
]
const frames = events.map(({ event, data }, i) => ({ seq: i + 1, at, event, payload: JSON.stringify(data) }))

const decodeText = (text: string, size: number) => {
  const bytes = new TextEncoder().encode(text)
  const count = Math.ceil(bytes.length / size)
  return decode(Stream.range(0, count - 1).pipe(Stream.map((i) => bytes.subarray(i * size, (i + 1) * size)))).pipe(
    Stream.runCollect
  )
}

describe("SseFrame", () => {
  it("puts the ids and the time in front of the payload's fields, also where there are none", () => {
    const head = `{"plan_id":"${ids.plan_id}","session_id":"${ids.session_id}","at":"${at}"`
    assert.strictEqual(
      encode({ seq: 7, at, event: "step", payload: '{"step":1,"attempt":1}' }),
      `id: 7\nevent: step\ndata: ${head},"step":1,"attempt":1}\n\n`
    )
    assert.strictEqual(encode({ seq: 8, at, event: "done", payload: "{}" }), `id: 8\nevent: done\ndata: ${head}}\n\n`)
  })

  it.effect("reads back what was written, wherever the bytes are cut", () =>
    Effect.gen(function* () {
      const text = ping + frames.map(encode).join(ping) + reconnect
      const expected = events.map(({ event, data }, i) => ({ id: i + 1, event, data: { ...ids, at, ...data } }))
      for (const size of [1, 2, 3, 7, 64, 100_000]) {
        assert.deepStrictEqual<ReadonlyArray<unknown>>(yield* decodeText(text, size), expected)
      }
    })
  )

  it.effect("ignores events and fields that it does not know", () =>
    Effect.gen(function* () {
      const text =
        encode({ seq: 1, at, event: "event.of.later", payload: '{"task_id":"x"}' }) +
        encode({ seq: 2, at, event: "step", payload: '{"step":1,"attempt":2,"later":true}' })
      assert.deepStrictEqual<ReadonlyArray<unknown>>(yield* decodeText(text, 1_000), [
        { id: 2, event: "step", data: { ...ids, at, step: 1, attempt: 2 } }
      ])
    })
  )
})
