import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { assert, describe, it } from "@effect/vitest"
import { Schema, Struct } from "effect"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { zstdCompressSync } from "node:zlib"
import { dictionary } from "../../src/plan/internal/BlockDictionary.ts"
import { pack, unpack } from "../../src/plan/SealedEvents.ts"

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

/** Also what stands for JSON in a text, and what looks like it. */
const Recorded = Schema.Record(
  Schema.Literals(["arguments", "$", "input"]),
  Schema.Union([Schema.Json, Schema.Literals(['{"a":"{\\"b\\":1}"}', '{"$":{}}', '{ "a": 1 }', "{"])])
)

const Drawn = Schema.Struct({
  gap: Schema.Literals([0, 0, 1]),
  /** A clock may have gone back between two processes. */
  ms: Schema.Int.check(Schema.isBetween({ minimum: -1_000, maximum: 1_000_000 })),
  row: Schema.Union([
    Schema.TaggedStruct("Delta", { ...Place, delta: Piece }),
    Schema.TaggedStruct("Run", { ...Place, deltas: Schema.Array(Piece).check(Schema.isMinLength(2)) }),
    Schema.TaggedStruct("Odd", { which: Schema.Literals([0, 1, 2, 3, 4]) }),
    Schema.TaggedStruct("Other", { data: Schema.Record(Schema.String, Schema.String) })
  ]),
  record: Schema.Union([Schema.Literal("none"), Schema.Literals(["", "{", "[{ }]", '["{}"]']), Schema.Array(Recorded)])
})

const recordOf = ({ record }: typeof Drawn.Type) => {
  if (record === "none") return {}
  return { record: typeof record === "string" ? record : JSON.stringify(record) }
}

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
    const row = { seq, at: fromMillis(time), ...written(one), ...recordOf(one) }
    seq += row.count
    return row
  })
}

/** A plan of 300 tokens, with so many calls that give 2 kB each, and its record as a process writes it. */
const recordedPlan = (prose: string, calls: number): ReadonlyArray<EventRow> => {
  const rows: Array<EventRow> = []
  const digest = (of: string, length: number) => createHash("sha256").update(of).digest("base64url").slice(0, length)
  const id = (of: number) =>
    createHash("md5")
      .update(`id ${of}`)
      .digest("hex")
      .replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
  let seq = 1
  const add = (event: EventRow["event"], data: object, records: ReadonlyArray<object> = [], count = 1) => {
    const at = fromMillis(1_790_000_000_000 + ((seq * 7_919) % 60_000) + 60_000 * seq)
    const record = records.length > 0 && { record: JSON.stringify(records) }
    rows.push({ seq, at, count, event, payload: JSON.stringify(data), ...record })
    seq += count
  }
  const model = "openai/gpt-5"
  const prompt = { system: digest("system", 6), tools: digest("tools", 6) }
  const attempt = (step: number, told: ReadonlyArray<object | number>, reason: string) => {
    const usage = {
      input_tokens: 1_000 * step + 37,
      output_tokens: 61 * step,
      cached_input_tokens: 0,
      reasoning_tokens: 0
    }
    const asked = { ...prompt, messages: digest(`messages ${step}`, 6), rest: digest("rest", 6) }
    const parts = [
      ...told,
      { _tag: "UsageReported", usage },
      { _tag: "Finished", reason, inferred: false, model: "gpt-5" }
    ]
    const record = { type: "attempt", attempt: 1, model, credential: "openai-1", prompt: asked, parts, step }
    add("usage", { step, attempt: 1, ...usage, cost_usd: 0.0123 * step }, [record])
    return usage
  }
  const begin = {
    type: "begin",
    version: "0.0.0",
    environment: digest("environment", 16),
    delimiter: id(0),
    history: null
  }
  add("session", { external_session_id: null, created: true })
  add("plan", { model, deadline_at: fromMillis(1_790_000_120_000) }, [begin])
  for (let step = 1; step <= calls; step++) {
    const input = { query: prose.slice(50 * step, 50 * step + 30), limit: step }
    const call = { call: 0, id: "", name: "search", arguments: JSON.stringify(input) }
    add("step", { step, attempt: 1 })
    attempt(
      step,
      [
        { _tag: "ToolCallFragment", call: 0 },
        { _tag: "ToolCall", ...call }
      ],
      "tool_calls"
    )
    add("task.started", { task_id: id(step), tool: "search", kind: "mcp", agent: "desk", skill: "search", input })
    add("task.artifact", {
      task_id: id(step),
      content: prose.slice(2_000 * step, 2_000 * step + 2_000),
      truncated: false
    })
    add("task.finished", { task_id: id(step), state: "completed", remote_task_id: null, duration_ms: 211 * step })
  }
  const step = calls + 1
  const text = prose.slice(-1_200)
  const pieces = text.match(/[^]{1,4}/g) ?? []
  add("step", { step, attempt: 1 })
  for (let from = 0; from < pieces.length; from += 5) {
    const deltas = pieces.slice(from, from + 5)
    add("text.delta", { step, attempt: 1, deltas }, [], deltas.length)
  }
  const usage = attempt(step, [pieces.length], "stop")
  add("final", { stop_reason: "stop", text, usage, steps: step, tool_calls: calls, duration_ms: 12_345 })
  add("done", {})
  return rows
}

describe("a sealed block", () => {
  it.prop("has every row as it was, byte for byte", { drawn: Schema.Array(Drawn) }, ({ drawn }) => {
    const rows = rowsOf(drawn)
    assert.deepStrictEqual(unpack(pack(rows)), rows)
  })

  it("of the version before is read as it was", () => {
    const at = (ms: number) => fromMillis(1_790_000_000_000 + ms)
    const payload = '{"step":1,"attempt":1,"deltas":["A bow","line."]}'
    const record = '[{"type":"begin","version":"0.0.0"}]'
    const block =
      "KLUv/SD1BQYAMswnJoCnzQEzg7Iiucp0q//jm9gy2ngWMe2/nxvJHGAdGjEmTfS2GQm30eLc89JLZE1UopL4hTWtjyl4wrqsbxprhRQryy1CxaPT6o9xCDAhQODlaJuD7zJrDixr83XS0Z+4X/aosKZzz1vWxiAQjr34ZdwKNQZdgzXOxX+wOc3WvallfJ1+kHGcO1aW931xQ4fDkY4UkAAQg4UGBYaEdCQkCwA5AuZ9jLg4xMPWGEyAaiDmhqp2p7lCVk6Ltqoo"
    assert.deepStrictEqual(unpack(Buffer.from(block, "base64")), [
      { seq: 1, at: at(0), count: 1, event: "session", payload: '{"external_session_id":null,"created":true}' },
      { seq: 2, at: at(3), count: 2, event: "text.delta", payload, record },
      { seq: 5, at: at(1), count: 1, event: "done", payload: "{}" }
    ])
  })

  it("is read with the very dictionary that it was written with", () => {
    // Another dictionary gets another first byte of a block: what was sealed with this one has to stay readable.
    const digest = createHash("sha256").update(dictionary).digest("base64url")
    assert.strictEqual(digest, "NtiZzUHouXtxfhH6HNeFeJ6_4pHUA9wsmWa-f9UcLpY")
  })

  it("takes at most 15 % more with what is on record of the plan", () => {
    const prose = readFileSync(new URL("../../../../docs/reference/http.md", import.meta.url), "utf8")
    for (const calls of [0, 3]) {
      const rows = recordedPlan(prose, calls)
      const without = rows.map((row) => Struct.omit(row, ["record"]))
      assert.isAtMost(pack(rows).length, 1.15 * pack(without).length, `${calls} calls`)
    }
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
