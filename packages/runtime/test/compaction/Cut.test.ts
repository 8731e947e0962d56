import { PlanId } from "@bowline/domain/plan/Plan"
import type { Message, MessagePart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as Cut from "../../src/compaction/Cut.ts"
import type { Weighed } from "../../src/compaction/TokenEstimate.ts"

type Given = Weighed<Cut.HistoryEntry & Pick<Message, "plan_id">>

const id = (number: number) => String(number).padStart(36, "0")
const planId = (number: number) => PlanId.make(`plan_${id(number)}`)

/** A word is a token. */
const count = (text: string) => text.split(/\s+/).filter((word) => word !== "").length
const words = (tokens: number) => "word ".repeat(tokens)

const message = (role: "user" | "assistant" | "tool", plan: number, parts: ReadonlyArray<MessagePart>): Given => {
  const tokens = parts.map((part) =>
    part.type === "text" ? count(part.text) : part.type === "tool_result" ? count(part.content) : 1
  )
  return {
    message: { role, parts, plan_id: planId(plan) },
    parts: tokens,
    tokens: tokens.reduce((sum, one) => sum + one, 0)
  }
}

const Tokens = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2_000 }))

/** What became of a result: a call of an older turn may have none, or one that was written behind the next question. */
const Fate = Schema.Literals(["written", "late", "lost"])

/** Turns of a session: of each step how long its results are. */
const Turns = Schema.NonEmptyArray(
  Schema.Struct({
    question: Tokens,
    steps: Schema.Array(Schema.NonEmptyArray(Schema.Struct({ tokens: Tokens, fate: Fate }))),
    answer: Tokens
  })
)

/** The last of the turns is the one that runs, if one does: it has no answer yet, and no call is open. */
const history = (turns: typeof Turns.Type, isRunning: boolean): ReadonlyArray<Given> => {
  let calls = 0
  let late: ReadonlyArray<Given> = []
  return turns.flatMap(({ question, steps, answer }, plan) => {
    const runs = isRunning && plan === turns.length - 1
    const before = late
    late = []
    const made = steps.flatMap((results) => {
      const called = results.map(({ tokens, fate }) => ({ tokens, fate, task_id: TaskId.make(id(++calls)) }))
      // Results are written one by one, as they come.
      const written = (fate: string) =>
        called
          .filter((one) => one.fate === fate || (runs && fate === "written"))
          .map(({ task_id, tokens }) =>
            message("tool", plan, [{ type: "tool_result", task_id, state: "completed", content: words(tokens) }])
          )
      if (!runs) late = [...late, ...written("late")]
      const parts = called.map(({ task_id }): MessagePart => ({ type: "tool_call", task_id, tool: "t", input: {} }))
      return [message("assistant", plan, parts), ...written("written")]
    })
    return [
      message("user", plan, [{ type: "text", text: words(question) }]),
      ...before,
      ...made,
      ...(runs ? [] : [message("assistant", plan, [{ type: "text", text: words(answer) }])])
    ]
  })
}

const total = (messages: ReadonlyArray<Given>) => messages.reduce((sum, { tokens }) => sum + tokens, 0)
const idsOf = (messages: ReadonlyArray<Given>, type: "tool_call" | "tool_result") =>
  messages.flatMap(({ message }) => message.parts.flatMap((part) => (part.type === type ? [part.task_id] : [])))

/** Whether a place is between a call and its result. */
const splits = (messages: ReadonlyArray<Given>, at: number): boolean => {
  const results = idsOf(messages.slice(at), "tool_result")
  return idsOf(messages.slice(0, at), "tool_call").some((call) => results.includes(call))
}

const random = {
  turns: Turns,
  isRunning: Schema.Boolean,
  size: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 20_000 }))
}

const cutOf = ({ turns, isRunning, size }: { turns: typeof Turns.Type; isRunning: boolean; size: number }) => {
  const messages = history(turns, isRunning)
  const room = Math.floor(size * 0.6)
  const own = isRunning
    ? messages.findIndex(({ message }) => message.plan_id === planId(turns.length - 1))
    : messages.length
  const cut = Cut.decide({
    messages,
    question: isRunning ? own : undefined,
    size,
    room
  })
  return { messages, room, own, cut, keep: Math.floor(size * 0.3) }
}

describe("decide", () => {
  it.prop("never cuts between a call and its result", random, (given) => {
    const { messages, cut } = cutOf(given)
    if (cut !== undefined) assert.isFalse(splits(messages, cut.covered))
  })

  it.prop("never cuts inside a turn, unless the plan that runs is too long by itself", random, (given) => {
    const { messages, cut, own, room } = cutOf(given)
    if (cut === undefined || cut.covered === 0 || cut.covered === messages.length) return
    const { role } = messages[cut.covered]?.message ?? {}
    assert.strictEqual(cut.asksAgain, cut.covered > own)
    if (cut.covered <= own) return assert.strictEqual(role, "user")
    assert.strictEqual(role, "assistant")
    if (own > 0 && !splits(messages, own)) assert.isAbove(total(messages.slice(own)), room)
  })

  it.prop("always gains something", random, (given) => {
    const { messages, cut, own } = cutOf(given)
    if (cut === undefined) return
    assert.isBelow(cut.tokens, total(messages))
    assert.isTrue(cut.covered > 0 || cut.shortened.length > 0)
    assert.notStrictEqual(cut.covered, own + 1)
  })

  it.prop("leaves what fits, and gives up only when the question alone does not fit", random, (given) => {
    const { messages, cut, own, room, keep } = cutOf(given)
    if (cut !== undefined) return assert.isAtMost(cut.tokens, room)
    const question = messages[own]?.tokens ?? 0
    assert.isTrue(total(messages) <= keep || question > room || own === messages.length - 1)
  })

  it.prop("keeps as many of the newest turns as have room in 30 % of the size", random, (given) => {
    const { messages, cut, own, keep } = cutOf(given)
    const starts = [...messages.keys()].filter(
      (at) => at > 0 && messages[at]?.message.role === "user" && at <= own && !splits(messages, at)
    )
    const fit = starts.find((at) => total(messages.slice(at)) <= keep)
    if (cut !== undefined && fit !== undefined) assert.strictEqual(cut.covered, fit)
  })

  it.prop("shortens only results that stay, and only in the last resort", random, (given) => {
    const { messages, cut, own, room } = cutOf(given)
    if (cut === undefined || cut.shortened.length === 0) return
    for (const { message, part, tokens } of cut.shortened) {
      assert.isAtLeast(message, cut.covered)
      assert.strictEqual(messages[message]?.message.parts[part]?.type, "tool_result")
      assert.isBelow(tokens, messages[message]?.parts[part] ?? 0)
    }
    const question = cut.asksAgain ? (messages[own]?.tokens ?? 0) : 0
    if (cut.covered > 0) assert.isAbove(total(messages.slice(cut.covered)) + question, room)
  })

  it.prop("covers more each time, also of a plan whose question is asked again", random, (given) => {
    const { messages, own, room } = cutOf({ ...given, isRunning: true })
    const plan = planId(given.turns.length - 1)
    const seqs = new Map<Cut.HistoryEntry | undefined, number>(messages.map(({ message }, seq) => [message, seq]))
    let left = messages
    for (let covered = -1; ;) {
      const question = left.findIndex(({ message }) => message.plan_id === plan)
      const cut = Cut.decide({ messages: left, question, size: given.size, room })
      if (cut === undefined || cut.covered === 0) return
      const seq = seqs.get(left[cut.covered - 1]?.message) ?? -1
      assert.isAbove(seq, covered)
      covered = seq
      left = [...(cut.asksAgain ? messages.slice(own, own + 1) : []), ...left.slice(cut.covered)]
    }
  })

  it.prop("what stays is as long as it says", random, (given) => {
    const { messages, cut, own } = cutOf(given)
    if (cut === undefined) return
    const stays = Cut.rest(
      count,
      messages.map(({ message }) => message),
      cut
    )
    const tokens = stays.map(({ role, parts, plan_id }) => message(role, Number(plan_id.slice(-3)), parts))
    const question = cut.asksAgain ? (messages[own]?.tokens ?? 0) : 0
    assert.isAtMost(total(tokens) + question, cut.tokens)
  })

  const turn = (question: number, ...steps: ReadonlyArray<ReadonlyArray<number>>) => ({
    question,
    steps: steps.map(([first = 1, ...others]) =>
      [first, ...others].map((tokens) => ({ tokens, fate: "written" as const }))
    ) as unknown as (typeof Turns.Type)[number]["steps"],
    answer: 10
  })
  const decide = (turns: typeof Turns.Type, isRunning: boolean, size: number) => cutOf({ turns, isRunning, size }).cut

  it("covers whole turns, as many as it takes", () => {
    assert.deepInclude(decide([turn(100), turn(100), turn(100)], false, 750), { covered: 2, tokens: 220 })
    assert.deepInclude(decide([turn(100), turn(100), turn(100)], false, 400), { covered: 4, tokens: 110 })
  })

  it("does nothing for a history that is short enough", () => {
    assert.isUndefined(decide([turn(100), turn(100)], false, 750))
  })

  it("covers everything when not even the newest turn fits and no plan runs", () => {
    assert.deepInclude(decide([turn(100), turn(500)], false, 750), { covered: 4, tokens: 0 })
  })

  it("covers the steps of a plan that is too long, and asks its question again", () => {
    assert.deepInclude(decide([turn(50), turn(50, [400], [400], [100])], true, 1_000), {
      covered: 7,
      asksAgain: true,
      tokens: 50 + 101
    })
  })

  it("leaves a plan whole that is longer than 30 %, but not too long", () => {
    assert.deepInclude(decide([turn(300), turn(50, [200], [200])], true, 1_000), {
      covered: 2,
      asksAgain: false,
      tokens: 452
    })
  })

  it("shortens the results of the only step, the longest first", () => {
    assert.deepInclude(decide([turn(50, [5_000, 300])], true, 3_000), {
      covered: 0,
      shortened: [{ message: 1 + 1, part: 0, tokens: 900 - 50 - 2 - 300 }],
      tokens: 900
    })
  })

  it("shortens less where a long question leaves results no room in 30 %", () => {
    assert.deepInclude(decide([turn(800, [5_000])], true, 3_000), {
      covered: 0,
      shortened: [{ message: 2, part: 0, tokens: 1_800 - 801 }],
      tokens: 1_800
    })
  })

  it("treats an open call of the running plan as one whose result may still come", () => {
    const [question, asked] = history([turn(50, [10])], true)
    assert.isDefined(question)
    assert.isDefined(asked)
    if (question === undefined || asked === undefined) return
    const long = message("assistant", 0, [{ type: "text", text: words(900) }])
    const given = { messages: [question, asked, long], question: 0, size: 1_000, room: 600 }
    assert.isUndefined(Cut.decide(given))
  })
})
