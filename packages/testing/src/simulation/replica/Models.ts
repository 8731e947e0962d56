import type { FinishReason } from "@bowline/runtime/provider/Provider"
import { classify } from "@bowline/runtime/unstable/provider/Classification"
import * as FailureBody from "@bowline/runtime/unstable/provider/FailureBody"
import { PlanId } from "@bowline/domain/plan/Plan"
import { Effect, Exit, Stream } from "effect"
import * as ChatHost from "../../provider/ChatHost.ts"
import * as MessagesHost from "../../provider/MessagesHost.ts"
import * as ResponsesHost from "../../provider/ResponsesHost.ts"
import { withFinish } from "../../provider/internal/withFinish.ts"
import type { Asked, Script } from "../../provider/Script.ts"
import * as Turn from "../../provider/Turn.ts"
import { Fault, type Host, type HostRequest, type HostResponse } from "../../http/Host.ts"
import { slow, split, until, wait } from "../../http/Move.ts"
import * as Bank from "../world/Bank.ts"
import { peerTools } from "../world/Peers.ts"
import { providerUrls } from "./Replica.ts"
import type { ObservedAttempt } from "../scenario/Observed.ts"
import type { ProviderFault, ScenarioCall, ScenarioPlan } from "../scenario/Scenario.ts"
import { planHeader, replicaHeader, sentHeader, type Watch, type Wires } from "../world/Wires.ts"
import { type Open, planIn, type World } from "../world/World.ts"

type Attempt = Open<ObservedAttempt>

/** An answer that is being played. */
interface Playing {
  readonly world: World
  readonly attempt: Attempt
  readonly provider: keyof typeof providerUrls
  spokeAt: number
}

const usageOf = ({ messages, system, tools }: Asked) => ({
  input_tokens: Math.ceil(JSON.stringify([system, tools, messages]).length / 4),
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

const keys = /\w+\/\d+\.\d+/g

/**
 * How many calls of the plan have a result: those since its question, and those that a summary tells of. A continuation of an answer comes
 * as one more message of the user.
 */
export const resultsOf = (name: string, { messages, system }: Asked): number => {
  const asked = messages.findLastIndex((message) => message.role === "user" && planIn(message.text) !== "")
  const shown = messages.slice(asked + 1).filter(({ role }) => role === "tool")
  const told = [system, ...messages.map((message) => (message.role === "user" ? message.text : ""))].join(" ")
  const summarised = new Set(told.match(keys)?.filter((key) => key.startsWith(`${name}/`)))
  return shown.length + summarised.size
}

const spoken = (playing: Playing, turn: Turn.Turn): Turn.Turn =>
  turn.flatMap((move) =>
    move._tag === "Say" ? [move, then(playing, (attempt) => void (attempt.said += move.text))] : [move]
  )

const sayAll = (words: ReadonlyArray<string>, pauseMs: number): Turn.Turn =>
  words.flatMap((word) => [wait(pauseMs), Turn.say(word)])

/** What a model is told whose answer does not match its schema. */
const rejected = "Your answer was rejected"

/** The arguments of a call. An agent whose skill has no schema gets them as text. */
const argumentsOf = ({ isTurned, key, ms, order, tool }: ScenarioCall) => {
  if (order !== undefined) return { key, ms, ...Bank.argumentsOf(order, isTurned === true) }
  return peerTools.includes(tool) ? { input: JSON.stringify({ key, ms }) } : { key, ms }
}

/** The words and calls of a step. What is asked for once more is answered as it was. */
const stepOf = (plan: ScenarioPlan | undefined, name: string, asked: Asked): Turn.Turn => {
  const done = resultsOf(name, asked)
  let before = 0
  for (const [index, { calls, pauseMs, words }] of (plan?.steps ?? []).entries()) {
    if (before === done && (calls.length > 0 || plan?.json === undefined)) {
      const said = Array.from({ length: words }, (_, word) => `${name}.${index}.${word} `)
      const called = calls.map((call) => Turn.callTool(call.tool, argumentsOf(call)))
      return [...sayAll(said, pauseMs), ...called]
    }
    before += calls.length
  }
  return sayAll([isJson(plan, asked) ? JSON.stringify({ done: name }) : `${name} is done `], 0)
}

/** Whether the last words are the JSON that the plan has to answer with. */
const isJson = (plan: ScenarioPlan | undefined, { messages }: Asked): boolean => {
  const isAskedAgain = messages.some((message) => message.role === "user" && message.text.startsWith(rejected))
  return plan?.json === "at once" || (plan?.json === "repaired" && isAskedAgain)
}

/** The moves in front of the word with this number, and those behind. */
const cutAtWord = (turn: Turn.Turn, words: number): readonly [Turn.Turn, Turn.Turn] => {
  const places = turn.flatMap(({ _tag }, index) => (_tag === "Say" ? [index] : []))
  const at = places[words] ?? turn.findIndex(({ _tag }) => _tag === "Call")
  return at < 0 ? [turn, []] : [turn.slice(0, at), turn.slice(at)]
}

/** A summary says every fact of its prompt once more, and names every call. */
const summaryOf = (asked: Asked): Turn.Turn => {
  const all = asked.messages.map((message) => (message.role === "tool" ? message.content : message.text)).join(" ")
  const named = [...(all.match(/FACT-[\w.]+/g) ?? []), ...(all.match(keys) ?? [])]
  return sayAll([`Facts: ${Array.from(new Set(named)).join(" ")}`], 10)
}

/** A request to go on with a cut answer is no question. */
const questionOf = ({ messages }: Asked): string =>
  messages
    .flatMap((message) => (message.role === "user" && planIn(message.text) !== "" ? [message.text] : []))
    .at(-1) ?? ""

const isSummary = ({ system }: Asked): boolean => system.startsWith("You keep the memory of a conversation")

/** The name of the plan that asks; empty for a summary. */
const askedBy = (asked: Asked): string => (isSummary(asked) ? "" : planIn(questionOf(asked)))

/** A piece of something that has not begun. Chat drops a call without a name; Messages have an order. */
const strays = {
  openai: {
    piece: { choices: [{ index: 0, delta: { tool_calls: [{ index: 7, function: { arguments: "{}" } }] } }] },
    result: "cut"
  },
  anthropic: {
    piece: { type: "content_block_delta", index: 7, delta: { type: "text_delta", text: "too early " } },
    result: "stream_corrupt"
  },
  responses: {
    piece: {
      type: "response.output_text.delta",
      item_id: "none",
      output_index: 7,
      content_index: 0,
      delta: "too early "
    },
    result: "stream_corrupt"
  }
}

/** The answer of a provider, with the fault, and what an attempt has to make of it. */
const play = (playing: Playing, asked: Asked, answer: Turn.Turn, fault: ProviderFault | undefined): Turn.Turn => {
  const { attempt } = playing
  const usage = usageOf(asked)
  const whole = spoken(playing, answer)
  const text = whole.filter(({ _tag }) => _tag !== "Call")
  let finishedAt = Infinity
  const finished = (reason: FinishReason) =>
    then(playing, (attempt) => {
      attempt.result = "finished"
      attempt.finish = reason
      attempt.calls = whole.filter(({ _tag }) => _tag === "Call").length
      finishedAt = playing.world.now
    })
  const ended = withFinish(whole).flatMap((move) => (move._tag === "Finish" ? [move, finished(move.reason)] : [move]))
  const used = then(playing, (attempt) => {
    attempt.usage = usage
    attempt.usedAt = playing.world.moment()
    attempt.usageMs = Math.max(playing.world.now - finishedAt, 0)
  })
  const reported = [Turn.usage(usage), used]
  switch (fault?._tag) {
    case undefined:
    case "Cut":
    case "Reset":
      return [...ended, ...reported]
    case "Refuse": {
      const { code, retryAfterS, status } = fault
      const headers = retryAfterS === undefined ? {} : { "retry-after": String(retryAfterS) }
      const error = { message: "The scripted provider refuses", ...(code !== undefined && { code }) }
      const reason = classify({ status, headers }, FailureBody.fromJson({ error }), playing.world.now)
      attempt.result = reason._tag
      attempt.isUnexplained = "isUnexplained" in reason
      return [Turn.error(status, error, headers)]
    }
    case "ErrorChunk": {
      attempt.result = fault.type === "overloaded_error" ? "overloaded" : "server_error"
      const [begun] = cutAtWord(text, fault.words)
      return [...begun, Turn.errorChunk({ message: "A scripted failure", type: fault.type })]
    }
    case "Stall": {
      const [begun, rest] = cutAtWord(ended, fault.words)
      return [...begun, wait(fault.ms), ...rest, ...reported]
    }
    case "EarlyUsage":
      return [...reported, ...ended]
    case "SlowBytes":
      return [split(7), slow(fault.ms), ...ended, ...reported]
    case "NoFinish":
      attempt.result = "stream_truncated"
      return [...whole, Turn.noFinish]
    case "Corrupt":
      attempt.result = "stream_corrupt"
      return [...text, Turn.raw("data: {not json\n\n")]
    case "Disorder": {
      const { piece, result } = strays[playing.provider]
      attempt.result = result
      const stray = Turn.raw(`data: ${JSON.stringify(piece)}\n\n`)
      return result === "cut" ? [...text, stray, Turn.finish("stop"), finished("stop"), ...reported] : [...text, stray]
    }
    case "Twice":
      return [...ended, ...ended.filter(({ _tag }) => _tag === "Finish"), ...reported]
    case "Length":
      return [...text, Turn.finish("length"), finished("length"), ...reported]
  }
}

const cutBehind = (response: HostResponse, bytes: number, kind: Fault["kind"], onCut: () => void): HostResponse => {
  let left = bytes
  const body = Stream.flatMap(response.body, (piece): Stream.Stream<Uint8Array, Fault> => {
    if (piece.length <= left) {
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

/** What the provider answers at this instant to everybody, or to this credential. */
const standingFault = (world: World, provider: string, credential: string): ProviderFault | undefined => {
  for (const fault of world.standing) {
    if (fault._tag === "Expire" && fault.credential === credential) return { _tag: "Refuse", status: 401 }
    if (fault._tag === "Storm" && fault.provider === provider) {
      const { retryAfterS } = fault
      return { _tag: "Refuse", status: 429, ...(retryAfterS !== undefined && { retryAfterS }) }
    }
  }
  return undefined
}

interface Cast {
  /** What the model of an app answers, but for the questions in the end: a word is enough to show that their session goes on. */
  readonly script: ((asked: Asked) => Turn.Turn) | undefined
  readonly plans: () => ReadonlyMap<string, ScenarioPlan>
  /** The name of a plan; empty if it is not known. */
  readonly nameOf: (plan: PlanId) => string
  readonly faultOf: (plan: string, request: number) => ProviderFault | undefined
}

/** Serves the providers of the world. They answer by the plans of the scenario. */
export const serve = (world: World, wires: Wires, { faultOf, nameOf, plans, script }: Cast): void => {
  const asked = new Map<string, number>()
  const running = new WeakMap<HostRequest, Attempt>()
  const watchOf = (kind: { readonly asked: typeof ChatHost.asked }): Watch => ({
    onReset: (request, replica) => {
      const attempt = running.get(request)
      if (attempt?.ended === undefined && attempt?.result === "cut") attempt.result = "transport"
      const plan = attempt?.plan ?? askedBy(Effect.runSync(kind.asked(request)))
      world.resets.push({ ...world.moment(), replica, plan, call: undefined })
    }
  })

  const hostOf =
    (
      provider: keyof typeof providerUrls,
      kind: { readonly asked: typeof ChatHost.asked; readonly make: (script: Script) => Effect.Effect<Host> }
    ): Host =>
    (request) =>
      Effect.gen(function* () {
        const given = yield* kind.asked(request)
        const plan = isSummary(given) ? "" : nameOf(PlanId.make(request.headers[planHeader] ?? "")) || askedBy(given)
        const number = asked.get(plan) ?? 0
        asked.set(plan, number + 1)
        const credential = `${provider}-${keyOf(request)}`
        const drawn = plan === "" ? undefined : faultOf(plan, number)
        const fault = standingFault(world, provider, credential) ?? drawn
        const replica = request.headers[replicaHeader] ?? ""
        const attempt: Attempt = {
          plan,
          session_id: undefined,
          replica,
          credential,
          model: `${provider}/${given.model}`,
          asked: given,
          began: world.moment(),
          ended: undefined,
          result: "cut",
          isUnexplained: false,
          finish: undefined,
          calls: 0,
          quiet: 0,
          said: "",
          usage: undefined,
          usedAt: undefined,
          usageMs: 0
        }
        world.attempts.push(attempt)
        running.set(request, attempt)
        const playing: Playing = { world, attempt, provider, spokeAt: Number(request.headers[sentHeader]) }
        world.tell(provider, plan, `is asked by ${replica}${fault === undefined ? "" : `, and will ${fault._tag}`}`)
        const scripted = () => (world.probes.includes(plan) ? undefined : script?.(given))
        const answer = isSummary(given) ? summaryOf(given) : (scripted() ?? stepOf(plans().get(plan), plan, given))
        const turn = play(playing, given, answer, fault)
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
            const isKnown = isBroken || attempt.result === "transport" || attempt.result === "finished"
            if (Exit.isFailure(exit) && !isKnown) attempt.result = "cut"
            world.tell(provider, plan, `ends: ${attempt.result}`)
          })
        return { ...spoiled, body: Stream.onExit(spoiled.body, end) }
      })

  wires.serve(providerUrls.openai, hostOf("openai", ChatHost), watchOf(ChatHost))
  wires.serve(providerUrls.anthropic, hostOf("anthropic", MessagesHost), watchOf(MessagesHost))
  wires.serve(providerUrls.responses, hostOf("responses", ResponsesHost), watchOf(ResponsesHost))
}

const keyOf = ({ headers }: HostRequest): string =>
  /key-(\d+)/.exec(`${headers["authorization"] ?? ""}${headers["x-api-key"] ?? ""}`)?.[1] ?? "?"
