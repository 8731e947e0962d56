import type { PlanView } from "@bowline/client"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Deferred, Effect, Fiber, Option, Stdio, Stream } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Ended, exitCodes } from "./Ended.ts"
import * as GatewayClient from "./GatewayClient.ts"
import * as Signals from "./Signals.ts"
import * as Watch from "./Watch.ts"

const toAgent = (text: string) => {
  const [, name, endpoint] = /^([^=]+)=(.+)$/.exec(text) ?? []
  return name === undefined || endpoint === undefined ? Option.none() : Option.some({ name, endpoint })
}

const parameters = {
  question: Argument.String("question").pipe(
    Argument.withDescription("What is asked; - or nothing reads it from stdin"),
    Argument.optional
  ),
  agent: Flag.String("agent").pipe(
    Flag.withDescription("An agent that may be asked, as name=url; may be given several times"),
    Flag.filterMap(toAgent, () => "Expected name=url"),
    Flag.atLeast(0)
  ),
  file: Flag.String("file").pipe(
    Flag.withDescription("A file that belongs to the question, by its path; may be given several times"),
    Flag.atLeast(0)
  ),
  session: Flag.String("session").pipe(
    Flag.withDescription("Your name of the session that the question belongs to"),
    Flag.optional
  ),
  preset: Flag.String("preset").pipe(
    Flag.withDescription("The preset that the question is asked with: bring no agents of your own"),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("Print the outcome as one JSON object"), Flag.withDefault(false))
}

/** How long Ctrl-C waits for the plan's name and for the cancel. Then it closes the connection, which ends the plan as well. */
const cancelTimeout = "3 seconds"

interface Question {
  readonly question: Option.Option<string>
  readonly agent: ReadonlyArray<{ readonly name: string; readonly endpoint: string }>
  readonly file: ReadonlyArray<string>
  readonly session: Option.Option<string>
  readonly preset: Option.Option<string>
  readonly json: boolean
}

const noQuestion = new Ended({
  code: exitCodes.usage,
  lines: ["Expected a question, as an argument or on stdin (see bowline ask --help)"]
})

const readQuestion = Effect.fnUntraced(function* (given: Option.Option<string>) {
  if (Option.isSome(given) && given.value !== "-") return given.value
  const stdio = yield* Stdio.Stdio
  if (Option.isNone(given) && (yield* stdio.stdinIsTerminal)) return yield* noQuestion
  const text = yield* Effect.orDie(Stream.mkString(Stream.decodeText(stdio.stdin)))
  if (text.trim() === "") return yield* noQuestion
  return text.trimEnd()
})

const toRequest = Effect.fnUntraced(function* (
  gateway: GatewayClient.GatewayClient,
  { agent, file, preset, question, session }: Question
) {
  const text = yield* readQuestion(question)
  const stored = yield* Effect.forEach(file, (path) => GatewayClient.upload(gateway, path))
  const parts = stored.map(({ file_id }) => ({ type: "file" as const, file_id }))
  return {
    question: parts.length === 0 ? text : [{ type: "text" as const, text }, ...parts],
    agents: agent,
    ...Option.match(session, { onNone: () => ({}), onSome: (session_id) => ({ session_id }) }),
    ...Option.match(preset, { onNone: () => ({}), onSome: (preset) => ({ preset }) })
  }
})

const unconfirmed = ({ planId }: PlanView): string =>
  planId === null
    ? "Interrupted before the plan began: bowline plans says whether it runs"
    : `Interrupted, and the gateway has not confirmed the cancel: try bowline cancel ${planId}`

/** Shows a plan that this command has started, to its end, and cancels it on Ctrl-C. */
export const showOwn = Effect.fnUntraced(function* (
  gateway: GatewayClient.GatewayClient,
  frames: ReturnType<GatewayClient.GatewayClient["client"]["plan"]>,
  json: boolean
) {
  const seen = Watch.nothing()
  const display = yield* Watch.display(gateway, seen, { asks: true, printsText: !json })
  const watching = yield* Effect.forkScoped(Watch.follow(gateway, frames, seen, display))

  const cancel = Effect.gen(function* () {
    yield* display.leave("Cancelling the plan. Ctrl-C quits at once")
    // The plan may have begun, with its first frame still on its way.
    const unnamed = Effect.andThen(Fiber.await(watching), Effect.fail("unnamed"))
    const id = yield* Effect.raceFirst(Deferred.await(seen.named), unnamed)
    const cancelled = gateway.client.use((bowline, signal) => bowline.plans.cancel(id, { signal }))
    const answered = Effect.map(cancelled, ({ state }) => state)
    // The stream of a cancelled plan may end before the answer to the cancel arrives.
    const ended = Effect.flatMap(Fiber.await(watching), () =>
      seen.view.outcome === null ? Effect.never : Effect.succeed(seen.view.state)
    )
    const state = yield* Effect.raceFirst(ended, answered)
    return state === "aborted" ? "Cancelled" : `Interrupted: the plan is ${state} already`
  })

  const isInterrupted = yield* Effect.raceFirst(Effect.as(Fiber.await(watching), false), Effect.as(Signals.first, true))
  if (isInterrupted) {
    const line = yield* cancel.pipe(
      Effect.timeoutOption(cancelTimeout),
      Effect.orElseSucceed(() => Option.none()),
      Effect.map(Option.getOrElse(() => unconfirmed(seen.view)))
    )
    return yield* new Ended({ code: exitCodes.interrupted, lines: [line] })
  }
  yield* Fiber.join(watching)
  yield* Watch.report(seen, json)
})

const run = Effect.fnUntraced(function* (question: Question) {
  const gateway = yield* GatewayClient.make
  const payload = yield* toRequest(gateway, question)
  const frames = gateway.client.plan(payload, { idempotencyKey: (yield* UuidGenerator)() })
  yield* showOwn(gateway, frames, question.json)
}, Effect.scoped)

/** Asks a gateway one question. */
export const ask = Command.make("ask", parameters, run).pipe(
  Command.withDescription(
    "Ask a gateway a question. On a terminal, type a line while the plan runs to add something: it is read at the next step, " +
      "and with ! in front at once"
  )
)
