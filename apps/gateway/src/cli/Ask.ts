import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import * as Usage from "@bowline/domain/plan/Usage"
import { fromSchema } from "@bowline/protocol/api/Issues"
import type { Issue } from "@bowline/protocol/api/Problem"
import type { PlanResult } from "@bowline/protocol/plan/PlansApi"
import type { SseFrame } from "@bowline/protocol/stream/SseFrame"
import { Console, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as Outbound from "../egress/Outbound.ts"
import { Ended, exitCodes, failed, reasonOf } from "./Ended.ts"
import * as GatewayClient from "./GatewayClient.ts"
import * as PlanStream from "./PlanStream.ts"
import { describe } from "./Progress.ts"
import * as Signals from "./Signals.ts"

const toAgent = (text: string) => {
  const [, name, endpoint] = /^([^=]+)=(.+)$/.exec(text) ?? []
  return name === undefined || endpoint === undefined ? Option.none() : Option.some({ name, endpoint })
}

const parameters = {
  question: Argument.String("question"),
  agent: Flag.String("agent").pipe(
    Flag.withDescription("An agent that may be asked, as name=url; may be given several times"),
    Flag.filterMap(toAgent, () => "Expected name=url"),
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

/** How long Ctrl-C waits for the cancel. Then it closes the connection, which ends the plan as well. */
const cancelTimeout = "3 seconds"

const decodeRequest = Schema.decodeUnknownEffect(PlanRequest, { errors: "all" })

const refused = (code: string, detail: string, issues: ReadonlyArray<Issue> = []) =>
  failed(
    `${code}: ${issues.length === 0 ? detail : issues.map(({ path, message }) => `${path}: ${message}`).join("; ")}`
  )

interface Question {
  readonly question: string
  readonly agent: ReadonlyArray<{ readonly name: string; readonly endpoint: string }>
  readonly session: Option.Option<string>
  readonly preset: Option.Option<string>
  readonly json: boolean
}

const toRequest = ({ agent, preset, question, session }: Question) =>
  decodeRequest({
    question,
    agents: agent,
    ...Option.match(session, { onNone: () => ({}), onSome: (session_id) => ({ session_id }) }),
    ...Option.match(preset, { onNone: () => ({}), onSome: (preset) => ({ preset }) })
  }).pipe(Effect.mapError((error) => refused("invalid_request", error.message, fromSchema(error))))

/** What the command has read of its plan so far. */
interface Seen {
  plan?: SseFrame["data"]
  usage: Usage.Usage
  interrupted?: true
  outcome?: Extract<SseFrame, { readonly event: "final" | "error" }>
}

const note = (seen: Seen, frame: SseFrame) => {
  seen.plan = frame.data
  if (frame.event === "usage") seen.usage = Usage.add(seen.usage, frame.data)
  if (frame.event === "final" || frame.event === "error") seen.outcome = frame
}

const toResult = (outcome: NonNullable<Seen["outcome"]>, usage: Usage.Usage): PlanResult => {
  const { plan_id, session_id } = outcome.data
  if (outcome.event === "final") {
    const { plan_id: _plan, session_id: _session, ...final } = outcome.data
    return { plan_id, session_id, state: "completed", final, usage }
  }
  const { plan_id: _plan, session_id: _session, ...error } = outcome.data
  return { plan_id, session_id, state: error.code === "aborted" ? "aborted" : "failed", error, usage }
}

/** Prints the answer on stdout and everything else on stderr. Fails without an answer. */
const report = Effect.fnUntraced(function* ({ outcome, usage }: Seen, json: boolean) {
  if (outcome === undefined) return yield* failed("The plan ended without an outcome")
  if (json) yield* Console.log(JSON.stringify(toResult(outcome, usage)))
  if (outcome.event === "error") return yield* failed(`${outcome.data.code}: ${outcome.data.message}`)
  if (!json) yield* Console.log(outcome.data.text)
  if (outcome.data.stop_reason !== "stop") yield* Console.error(`The answer ends early: ${outcome.data.stop_reason}`)
})

const run = Effect.fnUntraced(function* (question: Question) {
  const payload = yield* toRequest(question)
  const gateway = yield* GatewayClient.make
  const seen: Seen = { usage: Usage.empty }

  const onFrame = (frame: SseFrame) => {
    note(seen, frame)
    const line = process.stderr.isTTY ? describe(frame) : undefined
    return line === undefined ? Effect.void : Console.error(line)
  }

  const cancelled = Effect.gen(function* () {
    yield* Signals.first
    seen.interrupted = true
    if (seen.plan !== undefined) {
      const cancel = gateway.client.plans.cancel({ params: { id: seen.plan.plan_id } })
      yield* Effect.ignore(Effect.timeout(cancel, cancelTimeout))
    }
    return yield* new Ended({ code: exitCodes.interrupted, lines: ["Cancelled"] })
  })

  // The stream of a cancelled plan may end before the answer to the cancel arrives.
  const followed = PlanStream.follow(gateway, payload, onFrame).pipe(
    Effect.exit,
    Effect.flatMap((exit) => (seen.interrupted ? Effect.never : exit))
  )

  yield* Effect.raceFirst(followed, cancelled).pipe(
    Effect.catchTags({
      RequestRefused: ({ problem }) => refused(problem.code, problem.detail, problem.issues),
      HttpClientError: ({ cause }) => failed(`Cannot reach ${gateway.url}: ${reasonOf(cause)}`),
      SchemaError: () => failed(`What answers at ${gateway.url} is not a gateway of this version`),
      StreamLost: () => failed("The stream of the plan broke, and could not be resumed")
    })
  )
  yield* report(seen, question.json)
})

/** Asks a gateway one question. */
export const ask = Command.make("ask", parameters, run).pipe(
  Command.withDescription("Ask a gateway a question"),
  Command.provide(Outbound.layer)
)
