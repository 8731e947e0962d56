import type { PlanSummary } from "@bowline/client"
import { PlanState } from "@bowline/domain/plan/Plan"
import { FeedbackSign } from "@bowline/domain/unstable/plan/Feedback"
import { Effect, Option, Record } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as GatewayClient from "./GatewayClient.ts"
import { printLine } from "./Output.ts"
import * as PageFlags from "./PageFlags.ts"
import * as TextTable from "./TextTable.ts"
import { toJson } from "./TerminalText.ts"

/** As lists have it. */
const maxPreview = 200

const columns: ReadonlyArray<TextTable.Column<PlanSummary>> = [
  ["PLAN", ({ plan_id }) => plan_id],
  ["STATE", ({ state }) => state],
  ["CREATED", ({ created_at }) => ({ at: created_at })],
  ["QUESTION", ({ question_preview }) => question_preview],
  ["WHY", ({ error, stage }) => error?.reason ?? error?.code ?? stage ?? ""],
  ["SESSION", ({ external_session_id, session_id }) => external_session_id ?? session_id]
]

const filter = (name: string, description: string) =>
  Flag.String(name).pipe(Flag.withDescription(`Only plans ${description}`), Flag.optional)

/** By the names that the API has for them. */
const filters = {
  session_id: filter("session", "of this session: its id, or your name of it"),
  model: filter("model", "of this model, provider/model"),
  error_code: filter("error-code", "that failed with this code"),
  since: filter("since", "created then or later, such as 2026-01-02T03:04:05Z"),
  until: filter("until", "created before then"),
  q: filter("q", "whose question contains this text"),
  reason: filter("reason", "that were aborted for this reason"),
  tool: filter("tool", "that have called this tool"),
  agent: filter("agent", "that have called this agent or MCP server"),
  metadata: filter("metadata", "with this key=value in their metadata"),
  label: filter("label", "of which anybody has said last something with this label"),
  caller: filter("caller", "of this caller instead of yours, or of everybody (*): for admins"),
  feedback: Flag.Literals("feedback", FeedbackSign.literals).pipe(
    Flag.withDescription("Only plans of which anybody has said this last"),
    Flag.optional
  ),
  state: Flag.Literals("state", PlanState.literals).pipe(
    Flag.withDescription("Only plans in this state"),
    Flag.optional
  )
}

/** Lists the caller's plans. */
export const plans = Command.make(
  "plans",
  { ...filters, ...PageFlags.flags },
  ({ cursor, feedback, json, limit, state, ...given }) =>
    GatewayClient.request((bowline, options) =>
      bowline.plans
        .list({
          limit,
          state: Option.getOrUndefined(state),
          feedback: Option.getOrUndefined(feedback),
          ...Record.map(given, Option.getOrUndefined)
        })
        .page(Option.getOrUndefined(cursor), options)
    ).pipe(
      Effect.flatMap(({ plans, next_cursor }) =>
        PageFlags.print({ name: "plans", rows: plans, next: next_cursor }, columns, json)
      )
    )
).pipe(Command.withDescription("List your plans, newest first"))

/** Cancels a plan. One that is over stays as it is. */
export const cancel = Command.make(
  "cancel",
  { plan: Argument.String("plan").pipe(Argument.withDescription("The id of the plan")), json: PageFlags.json },
  ({ json, plan }) =>
    GatewayClient.request((bowline, options) => bowline.plans.cancel(plan, options)).pipe(
      Effect.flatMap((plan) => {
        if (json) return printLine(toJson(plan))
        return TextTable.print(columns, [{ ...plan, question_preview: plan.question.slice(0, maxPreview) }], "")
      })
    )
).pipe(Command.withDescription("Cancel a plan"))
