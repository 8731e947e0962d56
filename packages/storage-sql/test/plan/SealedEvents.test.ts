import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { zstdCompressSync } from "node:zlib"
import { pack, unpack } from "../../src/plan/internal/SealedEvents.ts"

type Written = Pick<EventRow, "count" | "event" | "payload">

/** Also halves of surrogate pairs, which may meet their other half in the next piece. */
const Piece = Schema.Union([Schema.String, Schema.Literals(["\ud83d", "\ude00", "\0", '"', "", " knot"])])
const Place = { step: Schema.Int, attempt: Schema.Int }

/** As no version has written them: they stay as they are. */
const odd: ReadonlyArray<Written> = [
  { event: "text.delta", count: 1, payload: '{ "step": 1, "attempt": 1, "delta": "a" }' },
  { event: "text.delta", count: 1, payload: '{"step":1,"attempt":1,"delta":"\\u0061"}' },
  { event: "text.delta", count: 1, payload: '{"delta":"a","attempt":1,"step":1}' },
  { event: "text.delta", count: 2, payload: '{"step":1,"attempt":1,"deltas":["a","b","c"]}' },
  { event: "reasoning.delta", count: 1, payload: "not JSON" }
]

const Drawn = Schema.Struct({
  gap: Schema.Literals([0, 0, 1]),
  /** A clock may have gone back between two processes. */
  ms: Schema.Int.check(Schema.isBetween({ minimum: -1_000, maximum: 1_000_000 })),
  row: Schema.Union([
    Schema.TaggedStruct("Delta", { ...Place, delta: Piece }),
    Schema.TaggedStruct("Run", { ...Place, deltas: Schema.Array(Piece).check(Schema.isMinLength(2)) }),
    Schema.TaggedStruct("Odd", { which: Schema.Literals([0, 1, 2, 3, 4]) }),
    Schema.TaggedStruct("Other", { data: Schema.Record(Schema.String, Schema.String) })
  ])
})

const written = ({ row }: typeof Drawn.Type): Written => {
  switch (row._tag) {
    case "Delta": {
      const { attempt, delta, step } = row
      return { event: "text.delta", count: 1, payload: JSON.stringify({ step, attempt, delta }) }
    }
    case "Run": {
      const { attempt, deltas, step } = row
      return { event: "reasoning.delta", count: deltas.length, payload: JSON.stringify({ step, attempt, deltas }) }
    }
    case "Odd":
      return odd[row.which] ?? { event: "done", count: 1, payload: "{}" }
    case "Other":
      return { event: "notice", count: 1, payload: JSON.stringify(row.data) }
  }
}

const rowsOf = (drawn: ReadonlyArray<typeof Drawn.Type>): ReadonlyArray<EventRow> => {
  let [seq, time] = [1, Date.parse("2026-11-24T00:00:00Z")]
  return drawn.map((one) => {
    seq += one.gap
    time += one.ms
    const row = { seq, at: fromMillis(time), ...written(one) }
    seq += row.count
    return row
  })
}

describe("a sealed block", () => {
  it.prop("has every row as it was, byte for byte", { drawn: Schema.Array(Drawn) }, ({ drawn }) => {
    const rows = rowsOf(drawn)
    assert.deepStrictEqual(unpack(pack(rows)), rows)
  })

  it("takes at most 1.3 times what the texts of 30 calls with 100 kB of results take compressed", () => {
    const prose = ["http", "storage", "client", "stream"]
      .map((page) => readFileSync(new URL(`../../../../docs/reference/${page}.md`, import.meta.url), "utf8"))
      .join("")
      .slice(0, 100_000)
    assert.lengthOf(prose, 100_000)
    const size = Math.ceil(prose.length / 30)
    const results = Array.from({ length: 30 }, (_, call) => prose.slice(call * size, (call + 1) * size))
    const written = results.flatMap((content, call): ReadonlyArray<readonly [EventRow["event"], object]> => {
      const step = call + 1
      const task_id = `task_${createHash("md5").update(content).digest("hex")}`
      return [
        ["step", { step, attempt: 1 }],
        ["usage", { step, attempt: 1, usage: { input_tokens: 900 * step, output_tokens: 40 }, cost_usd: 0.001 * step }],
        ["task.started", { task_id, step, tool: "desk_search", kind: "peer", agent: "desk", input: { page: step } }],
        ["task.progress", { task_id, state: "working", message: "searching" }],
        ["task.artifact", { task_id, content, media_type: "text/plain", truncated: false }],
        ["task.finished", { task_id, state: "completed", duration_ms: 200 + 7 * step }]
      ]
    })
    const rows = written.map(([event, data], index): EventRow => ({
      seq: index + 1,
      at: fromMillis(1_790_000_000_000 + 137 * index),
      count: 1,
      event,
      payload: JSON.stringify(data)
    }))
    assert.isAtMost(pack(rows).length, 1.3 * zstdCompressSync(results.join("")).length)
  })

  it("has the text of an answer once, although its pieces and its end have it", () => {
    // No phrase comes twice, so that only the repetition as a whole saves anything.
    const pieces = Array.from({ length: 300 }, (_, index) => `${(index * 2_654_435_761) % 99_991} `)
    const text = pieces.join("")
    const end = { seq: 301, at: fromMillis(0), count: 1, event: "final" as const, payload: JSON.stringify({ text }) }
    const told = pieces.map((delta, index) => ({
      seq: index + 1,
      at: fromMillis(0),
      count: 1,
      event: "text.delta" as const,
      payload: JSON.stringify({ step: 1, attempt: 1, delta })
    }))
    const [pieced, ended] = [pack(told), pack([...told, end])]
    assert.isBelow(ended.length - pieced.length, 100)
  })
})
