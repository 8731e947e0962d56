import { type Asked, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert } from "@effect/vitest"
import { Config, Effect, Schedule, Schema, Stream } from "effect"
import { Cluster } from "./Cluster.ts"
import { type Frame, get, replay } from "./GatewayProcess.ts"

/** Asks until the session has room for one more. */
const askInTurn = (url: string, body: object) =>
  get(url, "/plan", body).pipe(
    Effect.repeat({ until: ({ code }) => code !== "session_busy", schedule: Schedule.spaced("50 millis") })
  )

const MessagePage = Schema.Struct({
  messages: Schema.Array(
    Schema.Struct({
      seq: Schema.Int,
      role: Schema.String,
      plan_id: Schema.String,
      parts: Schema.Array(Schema.Struct({ text: Schema.optionalKey(Schema.String) })),
      compacted: Schema.Boolean
    })
  ),
  next_cursor: Schema.NullOr(Schema.String)
})
const decodePage = Schema.decodeUnknownEffect(MessagePage)
type Message = (typeof MessagePage.Type)["messages"][number]

const decodeEnded = Schema.decodeUnknownEffect(
  Schema.Struct({
    plan_id: Schema.String,
    session_id: Schema.String,
    state: Schema.Literal("completed"),
    final: Schema.Struct({ text: Schema.String })
  })
)

export const messagesOf = (url: string, session: string) =>
  Effect.gen(function* () {
    const found: Array<Message> = []
    for (let query = "?limit=200"; query !== "";) {
      const page = yield* decodePage(yield* get(url, `/sessions/${session}/messages${query}`))
      found.push(...page.messages)
      query = page.next_cursor === null ? "" : `?limit=200&cursor=${page.next_cursor}`
    }
    return found
  })

/** One plan behind the other: the messages of each without a gap, from its question to its answer. */
export const turnsOf = (messages: ReadonlyArray<Message>) => {
  const turns: Array<{ readonly plan: string; readonly question: string; readonly roles: Array<string> }> = []
  messages.forEach(({ seq, role, plan_id, parts }, index) => {
    assert.strictEqual(seq, index + 1)
    if (role === "user") turns.push({ plan: plan_id, question: parts[0]?.text ?? "", roles: [] })
    const turn = turns.at(-1)
    assert.strictEqual(plan_id, turn?.plan)
    turn?.roles.push(role)
  })
  return turns
}

/** What is planted in a text, each as often as it is there. */
export const factsIn = (text: string): ReadonlyArray<string> => text.match(/FACT-\w+-\d+/g) ?? []

/** What a planner gets to know: by the summary, and by what the user has said since. */
export const known = ({ system, messages }: Asked) =>
  factsIn([system, ...messages.flatMap((message) => (message.role === "user" ? [message.text] : []))].join("\n"))

export const checkStream = (frames: ReadonlyArray<Frame>) => {
  assert.deepStrictEqual(
    frames.map(({ id }) => id),
    frames.map((_, index) => index + 1)
  )
  for (const event of ["final", "done"])
    assert.lengthOf(
      frames.filter((frame) => frame.event === event),
      1
    )
  assert.strictEqual(frames.at(-1)?.event, "done")
}

/** How many plans a large storm has. */
export const large = Config.Int("BOWLINE_STORM").pipe(Config.withDefault(50))

/**
 * Plans at once, spread over sessions and gateways; each one has a fact in its question, calls a tool that is not there, and
 * then answers. Gives what each session has come to: its plans' facts and frames, one plan behind the other.
 */
export const storm = Effect.fnUntraced(function* (given: {
  readonly name: string
  readonly plans: number
  readonly sessions: number
  /** Behind the fact in a question. */
  readonly padding?: string
}) {
  const { name, plans, sessions, padding = "" } = given
  const { gateways, answer } = yield* Cluster
  const urls = gateways.map(({ url }) => url)
  const at = (index: number) => urls[index % urls.length] ?? ""
  const seen = new Map<string, ReadonlyArray<string>>()
  const facts = Array.from({ length: plans }, (_, index) => `FACT-${name}-${index}`)
  const ended = yield* Effect.forEach(
    facts,
    (fact, index) => {
      const question = `${fact}${padding}`
      answer(question, (request) => {
        seen.set(fact, known(request))
        return results(request).length === 0 ? [callTool("nobody", {})] : [say(`to ${fact}`)]
      })
      const body = { question, session_id: `${name}-${index % sessions}` }
      return Effect.flatMap(askInTurn(at(index), body), decodeEnded)
    },
    { concurrency: "unbounded" }
  )
  assert.deepStrictEqual(
    ended.map(({ final }) => final.text),
    facts.map((fact) => `to ${fact}`)
  )
  const streams = yield* Effect.forEach(
    ended,
    ({ plan_id }, index) =>
      Effect.map(Stream.runCollect(replay(at(index + 1), plan_id)), (frames) => {
        checkStream(frames)
        return [plan_id, frames] as const
      }),
    { concurrency: 8 }
  )
  const framesOf = new Map(streams)
  return yield* Effect.forEach(
    Array.from({ length: sessions }, (_, session) => session),
    Effect.fnUntraced(function* (session) {
      const messages = yield* messagesOf(at(session + 1), `${name}-${session}`)
      const mine = ended.filter((_, index) => index % sessions === session)
      const ids = [...new Set(mine.map(({ session_id }) => session_id))]
      assert.lengthOf(ids, 1)
      const turns = turnsOf(messages).map((turn) => ({
        ...turn,
        fact: factsIn(turn.question).join(),
        frames: framesOf.get(turn.plan) ?? []
      }))
      assert.sameMembers(
        turns.map(({ plan }) => plan),
        mine.map(({ plan_id }) => plan_id)
      )
      turns.forEach(({ fact, roles }, index) => {
        assert.deepStrictEqual(roles, ["user", "assistant", "tool", "assistant"])
        // What its planner has seen is what was there before it: the order of the history is that of the plans.
        assert.deepStrictEqual(
          seen.get(fact),
          turns.slice(0, index + 1).map((turn) => turn.fact)
        )
      })
      return { id: ids[0] ?? "", url: at(session), messages, turns }
    })
  )
})
