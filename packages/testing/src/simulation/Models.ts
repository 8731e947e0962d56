import { Effect, Exit, Stream } from "effect"
import * as ChatHost from "../provider/ChatHost.ts"
import * as MessagesHost from "../provider/MessagesHost.ts"
import { reasonOf } from "../provider/internal/reasonOf.ts"
import { type Asked, results, type Script } from "../provider/Script.ts"
import * as Turn from "../provider/Turn.ts"
import { Fault, type Host, type HostRequest, type HostResponse } from "../http/Host.ts"
import { slow, split, until, wait } from "../http/Move.ts"
import { providerUrls } from "./Replica.ts"
import type { ObservedAttempt } from "./Observed.ts"
import type { ProviderFault, ScenarioPlan } from "./Scenario.ts"
import { replicaHeader, type Wires } from "./Wires.ts"
import { type Open, planIn, type World } from "./World.ts"

type Attempt = Open<ObservedAttempt>

/** An answer that is being played. */
interface Playing {
  readonly world: World
  readonly attempt: Attempt
  spokeAt: number
}

const usageOf = (asked: Asked) => ({
  input_tokens: asked.messages.length * 10,
  output_tokens: 7,
  cached_input_tokens: 0,
  reasoning_tokens: 0
})

/** Does it when what stands in front of it has been sent. */
const then = (playing: Playing, task: (attempt: Attempt) => void): Turn.TurnMove =>
  until(
    Effect.sync(() => {
      playing.spokeAt = playing.world.now
      task(playing.attempt)
    })
  )

const sayAll = (playing: Playing, words: ReadonlyArray<string>, pauseMs: number): Turn.Turn =>
  words.flatMap((word) => [wait(pauseMs), Turn.say(word), then(playing, (attempt) => void (attempt.said += word))])

/** The words and calls of a step. What is asked for once more is answered as it was. */
const stepOf = (plan: ScenarioPlan | undefined, name: string, asked: Asked) => {
  let before = 0
  for (const [index, { calls, pauseMs, words }] of (plan?.steps ?? []).entries()) {
    if (before === results(asked).length) {
      return { calls, pauseMs, words: Array.from({ length: words }, (_, word) => `${name}.${index}.${word} `) }
    }
    before += calls.length
  }
  return { calls: [], pauseMs: 0, words: [`${name} is done `] }
}

/** A summary says every fact of its prompt once more. */
const summaryOf = (asked: Asked): ReadonlyArray<string> => {
  const all = asked.messages.map((message) => (message.role === "tool" ? message.content : message.text)).join(" ")
  return [`Facts: ${Array.from(new Set(all.match(/FACT-[\w.]+/g))).join(" ")}`]
}

/** A request to go on with a cut answer is no question. */
const questionOf = ({ messages }: Asked): string =>
  messages
    .flatMap((message) => (message.role === "user" && planIn(message.text) !== "" ? [message.text] : []))
    .at(-1) ?? ""

const isSummary = ({ system }: Asked): boolean => /summar/i.test(system)

/** The answer of a provider, with the fault, and what an attempt has to make of it. */
const play = (playing: Playing, asked: Asked, plan: ScenarioPlan | undefined, fault: ProviderFault | undefined) => {
  const { attempt } = playing
  const { calls, pauseMs, words } = isSummary(asked)
    ? { calls: [], pauseMs: 10, words: summaryOf(asked) }
    : stepOf(plan, attempt.plan, asked)
  const called = calls.map(({ key, ms, tool }) =>
    tool === "work" || tool === "repeat"
      ? Turn.callTool(tool, { key, ms })
      : Turn.callTool(tool, { input: JSON.stringify({ key, ms }) })
  )
  const usage = usageOf(asked)
  const reported = [Turn.usage(usage), then(playing, (attempt) => void (attempt.usage = usage))]
  const whole = [...sayAll(playing, words, pauseMs), ...called]
  const finished = then(playing, (attempt) => void (attempt.result = "finished"))
  switch (fault?._tag) {
    case undefined:
    case "Cut":
    case "Reset":
      return [...whole, ...reported, finished]
    case "Refuse": {
      const { code, retryAfterS, status } = fault
      const headers = retryAfterS === undefined ? {} : { "retry-after": String(retryAfterS) }
      attempt.result = reasonOf(status, { message: "", ...(code !== undefined && { code }) }, headers)._tag
      return [Turn.error(status, code === undefined ? {} : { code }, headers)]
    }
    case "ErrorChunk":
      attempt.result = fault.type === "overloaded_error" ? "overloaded" : "server_error"
      return [
        ...sayAll(playing, words.slice(0, fault.words), pauseMs),
        Turn.errorChunk({ message: "A scripted failure", type: fault.type })
      ]
    case "Stall":
      return [
        ...sayAll(playing, words.slice(0, fault.words), pauseMs),
        wait(fault.ms),
        ...sayAll(playing, words.slice(fault.words), pauseMs),
        ...called,
        ...reported,
        finished
      ]
    case "SlowBytes":
      return [split(7), slow(fault.ms), ...whole, ...reported, finished]
    case "NoFinish":
      attempt.result = "stream_truncated"
      return [...whole, Turn.noFinish]
    case "Corrupt":
      attempt.result = "stream_corrupt"
      return [...sayAll(playing, words, pauseMs), Turn.raw("data: {not json\n\n")]
    case "Twice": {
      const reason = calls.length > 0 ? "tool_calls" : "stop"
      return [...whole, Turn.finish(reason), Turn.finish(reason), ...reported, finished]
    }
    case "Length":
      return [...sayAll(playing, words, pauseMs), Turn.finish("length"), ...reported, finished]
  }
}

const cutBehind = (response: HostResponse, bytes: number, kind: Fault["kind"], onCut: () => void): HostResponse => {
  let left = bytes
  const body = Stream.flatMap(response.body, (piece): Stream.Stream<Uint8Array, Fault> => {
    if (piece.length < left) {
      left -= piece.length
      return Stream.succeed(piece)
    }
    const rest = piece.subarray(0, left)
    const breaks = Stream.unwrap(
      Effect.sync(() => {
        onCut()
        return Stream.fail(new Fault({ kind }))
      })
    )
    return rest.length === 0 ? breaks : Stream.concat(Stream.succeed(rest), breaks)
  })
  return { ...response, body }
}

interface Cast {
  readonly plans: () => ReadonlyMap<string, ScenarioPlan>
  readonly faultOf: (plan: string, request: number) => ProviderFault | undefined
}

/** Serves the providers of the world. They answer by the plans of the scenario. */
export const serve = (world: World, wires: Wires, { faultOf, plans }: Cast): void => {
  const asked = new Map<string, number>()

  const hostOf =
    (
      provider: keyof typeof providerUrls,
      kind: { readonly asked: typeof ChatHost.asked; readonly make: (script: Script) => Effect.Effect<Host> }
    ): Host =>
    (request) =>
      Effect.gen(function* () {
        const given = yield* kind.asked(request)
        const plan = isSummary(given) ? "" : planIn(questionOf(given))
        const number = asked.get(plan) ?? 0
        asked.set(plan, number + 1)
        const fault = plan === "" ? undefined : faultOf(plan, number)
        const replica = request.headers[replicaHeader] ?? ""
        const attempt: Attempt = {
          plan,
          session_id: undefined,
          replica,
          credential: `${provider}-${keyOf(request)}`,
          model: `${provider}/${given.model}`,
          asked: given,
          began: world.moment(),
          ended: undefined,
          result: "cut",
          quiet: 0,
          said: "",
          usage: undefined
        }
        world.attempts.push(attempt)
        const playing: Playing = { world, attempt, spokeAt: world.now }
        world.tell(provider, plan, `is asked by ${replica}${fault === undefined ? "" : `, and will ${fault._tag}`}`)
        const turn = play(playing, given, plans().get(plan), fault)
        const host = yield* kind.make(() => turn)
        const response = yield* host(request)
        const isBroken = fault?._tag === "Cut" || fault?._tag === "Reset"
        const spoiled = isBroken
          ? cutBehind(response, fault.bytes, fault._tag === "Cut" ? "cut" : "reset", () => {
              if (attempt.result !== "finished") attempt.result = "transport"
            })
          : response
        const end = (exit: Exit.Exit<unknown, unknown>) =>
          Effect.sync(() => {
            attempt.ended = world.moment()
            attempt.quiet = world.now - playing.spokeAt
            if (Exit.isFailure(exit) && !isBroken) attempt.result = "cut"
            world.tell(provider, plan, `ends: ${attempt.result}`)
          })
        return { ...spoiled, body: Stream.onExit(spoiled.body, end) }
      })

  wires.serve(providerUrls.openai, hostOf("openai", ChatHost))
  wires.serve(providerUrls.anthropic, hostOf("anthropic", MessagesHost))
}

const keyOf = ({ headers }: HostRequest): string =>
  /key-(\d+)/.exec(`${headers["authorization"] ?? ""}${headers["x-api-key"] ?? ""}`)?.[1] ?? "?"
