import type { Dialect } from "@bowline/domain/peer/Agent"
import type { Host } from "@bowline/testing/http/Host"
import { wait } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { type Act, completes, produces, says, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import type { Asked } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, type Turn, usage } from "@bowline/testing/provider/Turn"
import { Effect, Random } from "effect"

/** One call of a tool. `key` is in its arguments: the peer knows by it which call it got. */
interface ScriptedCall {
  readonly key: string
  readonly tool: string
  readonly ms: number
  /** How long the peer, which has the call, lets its caller wait for the first answer. */
  readonly lateMs: number
}

/** What a plan does, from its first word to its last one. The last step calls nothing. */
export interface ScriptedPlan {
  readonly name: string
  readonly session: string
  /** Where, and how long after the beginning of the round it is asked. */
  readonly process: number
  readonly delayMs: number
  readonly onDisconnect: "cancel" | "continue"
  /** A caller with a key asks again if it has not heard of its plan. */
  readonly hasKey: boolean
  readonly isWatched: boolean
  readonly pauseMs: number
  /** When somebody adds a note, since the plan is known. */
  readonly notesMs: ReadonlyArray<number>
  readonly steps: ReadonlyArray<{ readonly words: ReadonlyArray<string>; readonly calls: ReadonlyArray<ScriptedCall> }>
}

export interface ScriptedKill {
  readonly process: number
  /** Since the round began; of a second kill of the same process, since it is back. */
  readonly afterMs: number
}

export interface Round {
  readonly plans: ReadonlyArray<ScriptedPlan>
  readonly kills: ReadonlyArray<ScriptedKill>
}

const dialects: ReadonlyArray<readonly [string, Dialect]> = [
  ["one", "a2a-1.0"],
  ["three", "a2a-0.3"],
  ["bindu", "bindu"]
]
const agents = dialects.flatMap(([name, dialect]) => [
  { name, dialect, streams: false },
  { name: `${name}-live`, dialect, streams: true }
])
const skills = [{ id: "ask" }, { id: "again", idempotent: true }, { id: "pay", approval: "always" }]
/** Those of the peers; of a call of `pay` somebody decides first, and one of `pick` is answered by somebody. */
const tools = [
  ...agents.flatMap(({ name }) => [`${name}_ask`, `${name}_ask`, `${name}_again`]),
  "one_pay",
  "pick",
  "pick"
]

/** What the client runs itself. */
export const clientTools = [{ name: "pick", input_schema: { type: "object" } }]

const chance = (percent: number) => Effect.map(Random.nextIntBetween(0, 99), (drawn) => drawn < percent)
const times = <A>(count: number, draw: (index: number) => Effect.Effect<A>) =>
  Effect.forEach(
    Array.from({ length: count }, (_, index) => index),
    draw
  )

const drawCall = Effect.fnUntraced(function* (key: string) {
  const tool = tools[yield* Random.nextIntBetween(0, tools.length - 1)] ?? ""
  const ms = (yield* chance(35)) ? 0 : yield* Random.nextIntBetween(100, 800)
  const lateMs = (yield* chance(50)) ? 0 : yield* Random.nextIntBetween(50, 400)
  return { key, tool, ms, lateMs }
})

const drawPlan = Effect.fnUntraced(function* (name: string, session: string, processes: number) {
  const stepsWithCalls = yield* Random.nextIntBetween(1, 3)
  const steps = yield* times(
    stepsWithCalls + 1,
    Effect.fnUntraced(function* (step) {
      const words = yield* Random.nextIntBetween(1, 6)
      const calls = step === stepsWithCalls ? 0 : yield* Random.nextIntBetween(1, 3)
      return {
        words: Array.from({ length: words }, (_, word) => `${name}.${step}.${word} `),
        calls: yield* times(calls, (call) => drawCall(`${name}.${step}.${call}`))
      }
    })
  )
  return {
    name,
    session,
    process: yield* Random.nextIntBetween(0, processes - 1),
    delayMs: yield* Random.nextIntBetween(0, 600),
    onDisconnect: (yield* chance(25)) ? "cancel" : "continue",
    hasKey: yield* chance(40),
    isWatched: yield* chance(40),
    pauseMs: yield* Random.nextIntBetween(5, 60),
    notesMs: yield* times(yield* Random.nextIntBetween(0, 3), () => Random.nextIntBetween(0, 2_500)),
    steps
  } satisfies ScriptedPlan
})

/** What happens in a round, by the seed. Every fourth round kills once more: the other process, or the same one again. */
export const draw = (
  seed: string,
  round: number,
  processes: number,
  least: number,
  most: number
): Effect.Effect<Round> =>
  Effect.gen(function* () {
    const plans: Array<ScriptedPlan> = []
    for (let index = yield* Random.nextIntBetween(-most, -least); index < 0; index++) {
      const shared = (yield* chance(35)) ? plans.at(-1)?.session : undefined
      const name = `${round}.${plans.length}`
      plans.push(yield* drawPlan(name, shared ?? `session-${name}`, processes))
    }
    const process = yield* Random.nextIntBetween(0, processes - 1)
    const kills = [{ process, afterMs: yield* Random.nextIntBetween(0, 1_500) }]
    if (yield* chance(25)) {
      kills.push({ process: (process + 1) % processes, afterMs: yield* Random.nextIntBetween(0, 1_500) })
    }
    return { plans, kills }
  }).pipe(Random.withSeed(`${seed}/${round}`))

/** How long a step takes besides its words and calls: somebody may have to answer first. */
const waitMs = 1_000

/** How long it takes where nothing happens to it, at most. */
export const durationOf = ({ delayMs, notesMs, pauseMs, steps }: ScriptedPlan): number =>
  steps.reduce(
    // A poll comes up to a third later than the end, and a beat.
    (sum, { words, calls }) =>
      sum + words.length * pauseMs + 1.5 * Math.max(0, ...calls.map(({ lateMs, ms }) => ms + lateMs)) + waitMs,
    // A note may come behind the answer: then it is said once more.
    delayMs + notesMs.length * (250 + (steps.at(-1)?.words.length ?? 0) * pauseMs)
  )

/** The next step, by the results that are there: what is asked for once more is answered as it was. */
export const turnOf = (plans: ReadonlyMap<string, ScriptedPlan>, asked: Asked): Turn => {
  const at = asked.messages.findLastIndex((message) => message.role === "user" && !message.text.startsWith("note "))
  const message = asked.messages[at]
  const asks = message?.role === "user" ? message.text : ""
  const done = asked.messages.slice(at).filter(({ role }) => role === "tool").length
  const plan = plans.get(/plan (\S+)\?$/.exec(asks)?.[1] ?? "")
  if (plan === undefined) return [say(asks)]
  let before = 0
  for (const { words, calls } of plan.steps) {
    if (before === done) {
      const input_tokens = 1_000 + 100 * done + asks.length
      const tokens = { input_tokens, cached_input_tokens: 900, output_tokens: 1 }
      return [
        // An attempt that is cut off has told some of its tokens.
        usage(tokens),
        ...words.flatMap((word) => [wait(plan.pauseMs), say(word)]),
        ...calls.map(({ key, lateMs, ms, tool }) => callTool(tool, { input: `${key} ${ms} late=${lateMs}` })),
        usage({ ...tokens, output_tokens: words.length + 10 * calls.length })
      ]
    }
    before += calls.length
  }
  return [say(`There is no step behind ${done} results`)]
}

const actsOf = (text: string): ReadonlyArray<Act> => {
  const [key = "", ms = "0"] = text.split(" ")
  return ms === "0"
    ? [completes(`did ${key}`)]
    : [says("on it"), works(Number(ms)), produces(`did ${key}`), completes()]
}

/** A message that came to a peer. */
export interface Arrival {
  readonly key: string
  readonly messageId: string
  readonly isIdempotent: boolean
}

/** Whoever is killed while it waits for a late answer does not know whether the call has come. */
const lateAnswers =
  (host: Host): Host =>
  (request) =>
    Effect.tap(host(request), Effect.sleep(Number(/late=(\d+)/.exec(request.body)?.[1] ?? 0)))

/** The peers, each with the agents of the requests, and what has come to all of them. */
export const servePeers = Effect.gen(function* () {
  const network = yield* Network
  const late = Network.of({ serve: (host) => network.serve(lateAnswers(host)) })
  const served = yield* Effect.forEach(
    agents,
    Effect.fnUntraced(function* ({ name, dialect, streams }) {
      const acts = ({ message: { parts } }: { readonly message: { readonly parts: ReadonlyArray<object> } }) =>
        actsOf(textOf(parts))
      const { url, seen } = yield* Effect.provideService(ScriptedPeer.serve({ dialect, streams, acts }), Network, late)
      return { agent: { name, endpoint: `${url}/`, dialect, streaming: streams, skills }, seen }
    })
  )
  const arrivals = Effect.map(
    Effect.forEach(served, ({ seen }) => seen),
    (all) =>
      all.flatMap(({ sends, streams }) =>
        [...sends, ...streams].map(({ message }): Arrival => ({
          key: textOf(message.parts).split(" ")[0] ?? "",
          messageId: message.messageId,
          isIdempotent: message.metadata?.["skill_id"] === "again"
        }))
      )
  )
  const refused = Effect.map(
    Effect.forEach(served, ({ seen }) => seen),
    (all) => all.flatMap(({ refused }) => refused)
  )
  return { agents: served.map(({ agent }) => agent), arrivals, refused }
})

const textOf = (parts: ReadonlyArray<object>): string => {
  const [part] = parts
  return part !== undefined && "text" in part && typeof part.text === "string" ? part.text : ""
}
