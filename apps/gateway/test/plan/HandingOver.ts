import { wait } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { completes, produces, says, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { askForText, type Frame, replay, toFrames } from "./GatewayProcess.ts"

/** What a plan is at when its process is told to end, and the event that says so. All of it takes longer than the process has. */
const kinds = [
  // These two have one session: one of them waits for the other.
  { kind: "speaks", mark: /^event: (queued|text\.delta)$/m },
  { kind: "queued", mark: /^event: (queued|text\.delta)$/m },
  { kind: "polls", mark: /^event: task\.progress$/m },
  { kind: "streams", mark: /^event: task\.progress$/m },
  { kind: "unanswered", mark: /^event: task\.started$/m },
  { kind: "token", mark: /^event: text\.delta$/m }
] as const

export interface AskedPlan {
  readonly name: string
  readonly mark: RegExp
  /** Nobody knows of a call without an id whether it has come, and a token of a request is not kept. */
  readonly isKept: boolean
  readonly body: object
}

/** What a task of a peer takes, on a clock of the peers that the test moves. */
const taskTime = "10 seconds"

const skills = [{ id: "ask" }]

const servePeers = Effect.gen(function* () {
  const network = yield* Network
  const clock = yield* TestClock.make({ warningDelay: "1 hour" })
  const silent = Network.of({
    serve: (host) => network.serve((request) => Effect.andThen(host(request), Effect.never))
  })
  const acts = [says("on it"), works(taskTime), produces("done"), completes()]
  const [polls, streams, unanswered] = yield* Effect.all([
    ScriptedPeer.serve({ dialect: "a2a-1.0", acts }),
    ScriptedPeer.serve({ streams: true, acts }),
    Effect.provideService(ScriptedPeer.serve({ acts }), Network, silent)
  ]).pipe(Effect.provideService(Clock.Clock, clock))
  const agents = {
    speaks: [],
    queued: [],
    polls: [{ name: "polls", endpoint: `${polls.url}/`, dialect: "a2a-1.0", streaming: false, skills }],
    streams: [{ name: "streams", endpoint: `${streams.url}/`, dialect: "a2a-0.3", streaming: true, skills }],
    unanswered: [{ name: "unanswered", endpoint: `${unanswered.url}/`, dialect: "a2a-0.3", streaming: false, skills }],
    token: [
      { name: "token", endpoint: `${polls.url}/`, dialect: "a2a-1.0", auth: { type: "bearer", token: "t" }, skills }
    ]
  }
  return { agents, peers: { polls, streams, unanswered }, finish: clock.adjust(taskTime) }
})

/** Plans, as many of each kind, and the provider and peers that outlive the processes that run them. */
export const make = Effect.fnUntraced(function* (size: number) {
  const { agents, finish, peers } = yield* servePeers
  let isEnding = false
  const host = yield* ChatHost.make((asked) => {
    const name = question(asked)
    const tool = asked.tools.find((tool) => tool.name !== "token_ask")
    if (tool !== undefined && results(asked).length === 0) return [callTool(tool.name, { input: name })]
    if (tool !== undefined || isEnding) return [say(`${name} is whole`)]
    return Array.from({ length: 1_000 }, (_, word) => [say(`word${word} `), wait("100 millis")]).flat()
  })
  const provider = yield* (yield* Network).serve(host)
  const plans = Array.from({ length: size }, (_, at): ReadonlyArray<AskedPlan> =>
    kinds.map(({ kind, mark }) => {
      const name = `${kind} ${at}`
      const session_id = `${kind === "queued" ? "speaks" : kind}-${at}`
      const isKept = kind !== "unanswered" && kind !== "token"
      return { name, mark, isKept, body: { question: name, session_id, agents: agents[kind] } }
    })
  ).flat()
  return {
    plans,
    peers,
    /** The tasks of the peers are done from now on. */
    finish,
    settings: {
      OPENAI_BASE_URL: `${provider.url}/v1`,
      BOWLINE_MODEL: "openai/scripted",
      BOWLINE_SHUTDOWN_GRACE: "2s"
    },
    /** From now on every answer is a short one. */
    end: Effect.sync(() => void (isEnding = true))
  }
})

/** Asks, and reads to the end of the stream. Goes on when the plan is where it is to be. */
export const read = Effect.fnUntraced(function* (url: string, { body, mark }: AskedPlan) {
  const isThere = yield* Deferred.make<void>()
  let text = ""
  const reading = yield* askForText(url, body).pipe(
    Stream.runForEach((piece) => {
      text += piece
      return mark.test(text) ? Deferred.succeed(isThere, undefined) : Effect.void
    }),
    Effect.map(() => text),
    Effect.forkScoped
  )
  yield* Effect.raceFirst(Deferred.await(isThere), Fiber.join(reading))
  return reading
})

const named = (frames: ReadonlyArray<Frame>, ...events: ReadonlyArray<string>) =>
  frames.filter(({ event }) => events.includes(event))

/** What a reader has got ends behind a whole frame, and tells whether the plan is over. */
export const checkEnd = (text: string, isOver: boolean) => {
  const last = text.split("\n\n").slice(-2)
  assert.strictEqual(last[1], "", text.slice(-500))
  if (isOver) assert.match(last[0] ?? "", /^id: \d+\nevent: done\ndata: \{.+\}$/)
  else assert.strictEqual(last[0], ": reconnect")
  return toFrames(text)
}

/** Reads on behind what was seen, wherever, up to `done`. */
export const readOn = (url: string, seen: ReadonlyArray<Frame>) =>
  Effect.map(Stream.runCollect(replay(url, String(seen[0]?.data["plan_id"]), seen.length)), (rest) => [
    ...seen,
    ...rest
  ])

/** A plan that was told to its end, once. */
export const checkWhole = ({ name }: AskedPlan, frames: ReadonlyArray<Frame>, isCompleted: boolean) => {
  assert.deepStrictEqual(
    frames.map(({ id }) => id),
    frames.map((_, index) => index + 1)
  )
  assert.deepStrictEqual(
    named(frames, "final", "error", "done").map(({ event }) => event),
    [isCompleted ? "final" : "error", "done"],
    name
  )
  assert.strictEqual(frames.at(-1)?.event, "done")
  assert.strictEqual(named(frames, "task.started").length, named(frames, "task.finished").length)
  const { data = {} } = frames.at(-2) ?? {}
  if (isCompleted) assert.strictEqual(data["text"], `${name} is whole`)
  else assert.deepInclude(data, { code: "aborted", reason: "shutdown", retryable: true })
}
