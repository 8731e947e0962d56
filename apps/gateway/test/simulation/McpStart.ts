import { PlanId } from "@bowline/domain/plan/Plan"
import type { Options } from "@bowline/testing/simulation/Simulation"
import { type ReplicaClient, Refused, type Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { endsLate } from "@bowline/testing/unstable/simulation/Readers"
import { Effect, Exit, Schema } from "effect"
import { isDeepStrictEqual } from "node:util"
import { acceptedRpc, decodeQuestion, onBlocks } from "./Answers.ts"
import { isExplained } from "./BrokenOff.ts"
import type { Wire } from "./MemoryServer.ts"

type Start = ReplicaClient["Service"]["start"]
type Rule = NonNullable<Options["rules"]>[string]

const headers = {
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
  "mcp-protocol-version": "2025-11-25"
}

const Answer = Schema.Struct({
  plan_id: PlanId,
  state: Schema.String,
  text: Schema.String,
  code: Schema.optionalKey(Schema.String),
  usage: Schema.Json
})

/** What the last call about a plan has answered. */
export interface HeardAnswer {
  readonly plan: PlanId
  answer: typeof Answer.Type & { readonly isError: boolean }
}

const Result = Schema.Struct({
  isError: Schema.Boolean,
  structuredContent: Schema.optionalKey(Answer),
  content: Schema.Tuple([Schema.Struct({ text: Schema.String })])
})
const Message = Schema.Union([
  Schema.Struct({ id: Schema.Literal(1), result: Result }),
  Schema.Struct({ method: Schema.Literal("notifications/progress"), params: Schema.Struct({ progress: Schema.Int }) })
])
const decodeMessage = Schema.decodeUnknownSync(Schema.fromJsonString(Message))
const decodeFailure = Schema.decodeUnknownEffect(
  Schema.fromJsonString(
    Schema.Struct({
      error: Schema.Struct({ code: Schema.String, retryable: Schema.Boolean, plan_id: Schema.optionalKey(PlanId) })
    })
  )
)

const limits = ["max_steps", "max_tool_calls", "max_total_tokens", "tool_timeout_ms", "response_format"]

/** Whether a question can be asked by the tool `plan`, which has neither keys nor preferences such as budgets, and knows the agents of presets only. */
export const canAsk = ({ body, key }: Parameters<Start>[0]): boolean => {
  const { agents, mcp_servers, preferences } = decodeQuestion(body)
  const hasBudget = limits.some((name) => name in preferences)
  if (key !== undefined || hasBudget || preferences["approval"] === "always") return false
  return isDeepStrictEqual([agents, mcp_servers], [[], []])
}

/**
 * Asks as a client of MCP does: by the tool `plan` and, as long as its plan runs, by `plan_result`. What comes shows only that the
 * connection lives: behind the end the caller reads the plan.
 */
export const make = (
  { process, world }: Site,
  wire: Wire["Service"],
  all: Array<HeardAnswer>,
  waitMs: number,
  read: ReplicaClient["Service"]["read"]
) => {
  const call = (name: string, input: Schema.Json, take: () => Effect.Effect<void>) =>
    Effect.gen(function* () {
      const params = { name, arguments: input, _meta: { progressToken: "progress" } }
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params })
      const answer = yield* acceptedRpc(yield* wire.ask({ method: "POST", path: "/mcp", headers }, body))
      let progress = 0
      let result: typeof Result.Type | undefined
      yield* onBlocks(answer, (blocks) => {
        for (const block of blocks) {
          const [, data = ""] = /^event: message\ndata: (.*)$/.exec(block) ?? []
          if (result !== undefined || data === "")
            throw new Error(`Expected a message in front of the result: ${block}`)
          const message = decodeMessage(data)
          if ("result" in message) result = message.result
          else if (message.params.progress <= progress)
            throw new Error(`The progress is not behind ${progress}: ${block}`)
          else progress = message.params.progress
        }
        return take()
      })
      if (result === undefined) return yield* Effect.die("The call ends without a result")
      const { content, isError, structuredContent } = result
      if (structuredContent !== undefined) return { ...structuredContent, isError }
      const { error } = yield* Effect.orDie(decodeFailure(content[0].text))
      return yield* new Refused({ code: error.code, isPassing: error.retryable, plan: error.plan_id })
    }).pipe(Effect.scoped)

  /** A call that its caller no longer waits for is cancelled, unless its plan was handed out just now. */
  const abandon = (question: string) =>
    Effect.sync(() => {
      const [, plan = ""] = /FACT-(\S+)/.exec(question) ?? []
      const [began, ended] = [world.moment(), world.moment()]
      world.requests.push({ what: "cancel", plan, replica: process.name, began, ended, isRefused: true })
    })

  const start: Start = ({ body }, { begin, take }) =>
    Effect.gen(function* () {
      const { question, session_id } = decodeQuestion(body)
      const answer = yield* call("plan", { question, session_id, wait_ms: waitMs }, () => Effect.void).pipe(
        Effect.onExit((exit) => (Exit.isFailure(exit) ? abandon(question) : Effect.void))
      )
      const { plan_id } = answer
      const heard: HeardAnswer = { plan: plan_id, answer }
      all.push(heard)
      yield* begin(plan_id)
      while (heard.answer.state === "running") {
        heard.answer = yield* call("plan_result", { plan_id, wait_ms: waitMs }, () => take(["ping"]))
      }
      yield* read(plan_id, 0, { begin: () => Effect.void, take })
    })

  return { start, cancel: (plan_id: PlanId) => Effect.asVoid(call("plan_cancel", { plan_id }, () => Effect.void)) }
}

/** The last call says what is stored. A plan ends with the caller that waits for the call that has started it. */
export const rule =
  (all: Array<HeardAnswer>): Rule =>
  (observed) => [
    // The next run begins with none.
    ...all.splice(0).flatMap(({ answer: { code, isError, state, text, usage }, plan: id }) => {
      const plan = observed.plans.find(({ plan }) => plan.plan_id === id)
      if (plan === undefined) return [`the call has answered for ${id}, which is not stored`]
      if (state === "running") return []
      const { error, final, ...stored } = plan.plan
      const isTrue =
        stored.state === state &&
        isError === (error !== null) &&
        error?.code === code &&
        text === (final?.text ?? error?.message) &&
        isDeepStrictEqual(usage, { ...stored.usage })
      return isTrue ? [] : [`the call of ${plan.name} answers ${state} "${text}", the plan is ${stored.state}`]
    }),
    ...observed.plans.flatMap((plan) => {
      // Not a number for a plan that came in another way.
      const waitMs = Number(plan.request.metadata?.["mcp_wait_ms"])
      const asks = observed.requests.filter(({ plan: of, what }) => what === "ask" && of === plan.name)
      const [left] = asks.flatMap(({ ended, hasLeft, replica }) =>
        // What a process that shuts down hands over goes on.
        hasLeft === true && ended !== undefined && !isExplained(observed, { code: "draining", replica, at: ended.at })
          ? [ended.at]
          : []
      )
      // Just now the answer may be on its way.
      const isHeld = left !== undefined && left < plan.created.at + waitMs - 1_000
      if (!isHeld || asks.length > 1) return []
      const ended = endsLate(observed, plan, left)
      return ended === undefined ? [] : [`the caller of ${plan.name} leaves at ${left} ms, and it ends at ${ended} ms`]
    })
  ]
