import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Effect, Fiber, Layer, Schedule } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { eventsOf, post, send } from "../http/RunningGateway.ts"
import * as GatewayMemory from "./GatewayMemory.ts"
import { start } from "./GatewayProcess.ts"

/** For how many milliseconds of its own work the gateway may keep somebody waiting, on a machine that is slow. It is far less on a fast one. */
const longestStall = 1_200
/** For how many milliseconds it may keep somebody waiting, apart from what a busy machine does. */
const longestWait = 1_800

/** How much more memory the process may have afterwards, in MiB: its thread that checks arguments may keep 64 of them. */
const maxGrown = 128
/** How much more the thread that serves requests may refer to, in MiB. It has loaded the table of a tokenizer. */
const maxLeft = 32

const mebibyte = 1_048_576

/**
 * How long the main thread of a process has worked so far, and how long it was ready and had no processor, in milliseconds. Of both, only the first is
 * its own doing.
 */
const scheduleOf = (pid: number) => {
  const [worked = 0, delayed = 0] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ").map(Number)
  return { worked: worked / 1e6, delayed: delayed / 1e6 }
}

/**
 * Asks for `/health` again and again while something runs, and gives the most that the gateway worked meanwhile and the longest wait, in milliseconds. A
 * wait does not count what a busy machine adds to it: the time without a processor of the two threads that talk.
 */
const watchHealth = <A, E, R>({ pid, url }: Gateway, running: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    let isOver = false
    let wait = 0
    let stall = 0
    const look = Effect.gen(function* () {
      const begun = yield* Clock.currentTimeMillis
      const [gateway, own] = [scheduleOf(pid), scheduleOf(process.pid)]
      // A connection of its own: this process may be too busy to see that the gateway has closed one that was idle.
      yield* send(`${url}/health`, { headers: { connection: "close" } })
      const [gatewayAfter, ownAfter] = [scheduleOf(pid), scheduleOf(process.pid)]
      const delay = gatewayAfter.delayed - gateway.delayed + ownAfter.delayed - own.delayed
      stall = Math.max(stall, gatewayAfter.worked - gateway.worked)
      wait = Math.max(wait, (yield* Clock.currentTimeMillis) - begun - delay)
      yield* Effect.sleep("5 millis")
    })
    const watching = yield* Effect.forkChild(Effect.repeat(look, { while: () => !isOver }), { startImmediately: true })
    const answer = yield* running
    isOver = true
    // The last one ends, too: it may be the one that has waited.
    yield* Fiber.join(watching)
    return { answer, stall, wait }
  })

const many = <A>(count: number, make: (index: number) => A) => Array.from({ length: count }, (_, index) => make(index))
const fields = <A>(count: number, make: (index: number) => A) =>
  Object.fromEntries(many(count, (index) => [`p${index}`, make(index)]))

const agentOf = (schemas: ReadonlyArray<object>, name = "bob") => ({
  name,
  endpoint: "http://127.0.0.1:9/",
  skills: schemas.map((input_schema, index) => ({ id: `s${index}`, input_schema }))
})

const inlined = {
  $defs: { large: { properties: fields(700, () => ({ type: "string", minLength: 1 })) } },
  properties: fields(500, () => ({ $ref: "#/$defs/large" }))
}
/** Each level asks the next one twice, thirty times. */
const doubling = {
  $defs: fields(31, (index) => (index === 30 ? {} : { allOf: many(2, () => ({ $ref: `#/$defs/p${index + 1}` })) })),
  $ref: "#/$defs/p0"
}
/** What its references lead to has references itself, so that everything is put in everything. */
const nested = {
  $defs: fields(24, (index) =>
    index === 23
      ? { properties: fields(200, () => ({ type: "string" })) }
      : { properties: fields(8, () => ({ $ref: `#/$defs/p${index + 1}` })) }
  ),
  $ref: "#/$defs/p0"
}

/** A schema of so many characters that has as much to be looked at as there may be. */
const wide = (characters: number) => {
  const schema = { properties: fields(characters / 13, () => true), title: "" }
  return { ...schema, title: "x".repeat(characters - JSON.stringify(schema).length) }
}

type Called = readonly [name: string, schemas: ReadonlyArray<object>, input: object, states: ReadonlyArray<string>]

/** Schemas that pass the checks of a request, with arguments to call them with. */
const called: ReadonlyArray<Called> = [
  ["references that are put in each place", [inlined, nested], {}, ["failed", "invalid"]],
  ["references that double at each level", [doubling], {}, ["invalid"]],
  [
    "schemas that refer to themselves",
    [
      { $ref: "#" },
      { $dynamicRef: "#x", $defs: { x: { $dynamicAnchor: "x", $dynamicRef: "#x" } } },
      { if: { $ref: "#" }, then: false },
      { unevaluatedProperties: false, allOf: [{ $ref: "#" }] }
    ],
    {},
    ["invalid"]
  ],
  [
    "a pattern that goes back for ever",
    [{ properties: { a: { pattern: "^(([a-z])+.)+\\2[A-Z]([a-z])+$" } } }],
    { a: "a".repeat(60) },
    ["invalid"]
  ],
  [
    "arguments that are compared each with each",
    [{ properties: { a: { uniqueItems: true } } }],
    { a: many(8_000, (index) => ({ a: index })) },
    ["invalid"]
  ]
]

/** Bodies that are refused, and what of them is named. */
const refused: ReadonlyArray<readonly [name: string, body: object, path: string]> = [
  [
    "64 agents with 64 skills each",
    {
      agents: many(64, (agent) =>
        agentOf(
          many(64, (index) => ({ title: `${agent} ${index}` })),
          `a${agent}`
        )
      )
    },
    "agents"
  ],
  [
    "as many and as large schemas as there may be, and one character more",
    { agents: [agentOf([...many(8, () => wide(65_500)), wide(289)])] },
    "agents"
  ],
  [
    "schemas of which only the last one is wrong",
    { agents: [agentOf([...many(7, () => wide(65_500)), { allOf: [...many(900, () => ({})), 1] }])] },
    "agents[0].skills[7].input_schema"
  ],
  ["8 MiB of unknown fields", fields(500_000, () => 1), ""],
  ["8 MiB of wrong entries", { history: many(4_000_000, () => 1) }, ""],
  ["as many wrong entries as are counted", { history: many(49_900, () => 1) }, "history[0]"],
  ["as many wrong fields as are named", { metadata: fields(4_900, () => 1) }, "metadata.p0"]
]

const warmUp = "Are you there?"

/** Asked by the name of an attack, its provider makes the calls of it. */
const script: Script = (asked) => {
  const [, schemas = [], input = {}] = called.find(([name]) => name === question(asked)) ?? []
  return schemas.length === 0 || asked.messages.some(({ role }) => role === "tool")
    ? [say("done")]
    : schemas.map((_, index) => callTool(`bob_s${index}`, input))
}

type Gateway = Effect.Success<ReturnType<typeof start>>

/** One gateway for all of them: each finds it as the one before has left it. */
class Attacked extends Context.Service<Attacked, Gateway>()("@bowline/gateway/test/Attacked") {
  static readonly layer = Layer.effect(
    Attacked,
    Effect.gen(function* () {
      const network = yield* Network
      const provider = yield* network.serve(yield* ChatHost.make(script))
      return yield* start({
        BOWLINE_DATA_DIR: "memory:",
        OPENAI_BASE_URL: `${provider.url}/v1`,
        BOWLINE_MODEL: "openai/scripted",
        ...GatewayMemory.environment
      })
    })
  ).pipe(Layer.provide(LoopbackNetwork.layer))
}

/**
 * A question with this body. It is made before there is a gateway: it takes so long that this process would not see how the gateway closes
 * an idle connection, and would use that again.
 */
const asking = (name: string, body: object): string => JSON.stringify({ question: name, ...body })

/** Sends it while others ask for `/health`, and holds the process to its bounds. */
const attack = Effect.fnUntraced(function* (
  name: string,
  text: string,
  headers: Readonly<Record<string, string>> = {}
) {
  const gateway = yield* Attacked
  const { url } = gateway
  // What the process needs for any request is there before.
  yield* post(`${url}/plan`, { question: warmUp })
  const retained = yield* GatewayMemory.retainedBy(gateway)
  // Forgets the most that it has had so far.
  writeFileSync(`/proc/${gateway.pid}/clear_refs`, "5")
  const before = GatewayMemory.residentOf(gateway)
  const { answer, stall, wait } = yield* watchHealth(gateway, post(`${url}/plan`, text, headers))
  const { peak } = GatewayMemory.residentOf(gateway)
  const look = Effect.map(GatewayMemory.retainedBy(gateway), (now) => ({
    left: now - retained,
    grown: GatewayMemory.residentOf(gateway).now - before.now
  }))
  // A thread that was killed gives its memory back a moment later.
  const { grown, left } = yield* Effect.repeat(look, {
    until: ({ grown, left }) => grown < maxGrown && left < maxLeft,
    schedule: Schedule.spaced("100 millis"),
    times: 20
  })
  const round = (value: number) => value.toFixed(1)
  yield* Effect.logInfo(
    `${name}: ${round(text.length / mebibyte)} MiB sent, /health within ${round(wait)} ms and ${round(stall)} ms of work, ${round(before.now)} MiB before, ${round(peak)} at most, ${round(grown)} more after, ${round(left)} of them in use`
  )
  assert.isBelow(stall, longestStall, name)
  assert.isBelow(wait, longestWait, name)
  assert.isBelow(peak - before.now, 400, name)
  assert.isBelow(grown, maxGrown, name)
  assert.isBelow(left, maxLeft, name)
  assert.strictEqual((yield* send(`${url}/health`)).status, 200)
  return answer
})

layer(Attacked.layer, { excludeTestServices: true })("a gateway whose callers mean harm", (it) => {
  for (const [name, schemas, , states] of called) {
    const body = asking(name, { agents: [agentOf(schemas)] })
    it.effect(`serves others while a tool is called that has ${name}`, () =>
      Effect.gen(function* () {
        const { status, text } = yield* attack(name, body, { accept: "text/event-stream" })
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(eventsOf(text).slice(-2), ["final", "done"])
        const ends = Array.from(text.matchAll(/"state":"(\w+)","remote_task_id"/g), ([, state = ""]) => state)
        assert.strictEqual(ends.length, schemas.length)
        for (const state of ends) assert.include(states, state)
      })
    )
  }

  for (const [name, given, path] of refused) {
    const asked = asking(name, given)
    it.effect(`refuses ${name} at once`, () =>
      Effect.gen(function* () {
        const { body: problem, status, text } = yield* attack(name, asked)
        assert.deepStrictEqual([status, problem["code"]], [400, "invalid_request"])
        const issues = problem["issues"] as ReadonlyArray<{ readonly path: string }>
        assert.strictEqual(issues[0]?.path, path)
        assert.isAtMost(issues.length, 100)
        assert.isBelow(text.length, 32_768)
        if (path === "metadata.p0") assert.strictEqual(problem["issues_left_out"], 4_800)
      })
    )
  }
})
