import * as Usage from "@bowline/domain/plan/Usage"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { TaskId, TaskState } from "@bowline/domain/tool/TaskState"
import { Planner } from "@bowline/runtime/unstable/planner/Planner"
import { PlannerError } from "@bowline/runtime/unstable/planner/PlannerError"
import { Clock, Effect, Layer, Option, Schema } from "effect"
import type { Act, Part } from "../peer/Act.ts"

type Run = Parameters<Planner["Service"]["run"]>[0]

const step = { step: 1, attempt: 1 }
const isTaskState = Schema.is(TaskState)

const textOf = (parts: ReadonlyArray<Part>): string =>
  parts.map(({ text }) => (typeof text === "string" ? text : "")).join("")

const decodeFile = Schema.decodeUnknownOption(
  Schema.StructWithRest(Schema.Struct({ mimeType: Schema.String }), [Schema.Record(Schema.String, Schema.Json)])
)

/** A part that is no text, as a tool gives it. */
const contentOf = ({ data = null, file }: Part): { readonly content: Schema.Json; readonly media_type: string } => {
  return Option.match(decodeFile(file), {
    onNone: () => ({ content: data, media_type: "application/json" }),
    onSome: ({ mimeType, ...content }) => ({ content, media_type: mimeType })
  })
}

/** One call of a tool, which gives these parts and ends like this. */
const call = Effect.fnUntraced(function* (run: Run, parts: ReadonlyArray<Part>, state: TaskState) {
  const now = yield* Clock.currentTimeMillis
  const tool = "script"
  const task_id = TaskId.make(run.given.uuid())
  run.count({ tool_calls: run.progress.tool_calls + 1 })
  run.given.journal.append([run.message("assistant", [{ type: "tool_call", task_id, tool, input: {} }], now)], [])
  const start = { task_id, tool, kind: "local", agent: null, endpoint: null, skill: null, input: {} } as const
  const nobody = { agent_did: null, agent_did_source: null }
  run.tasks.start({ ...start, state: "running" }, true, nobody, [run.progressed("tool")], now)
  for (const part of parts) {
    run.tasks.tell({ event: "task.artifact", data: { task_id, ...contentOf(part), truncated: false } })
  }
  run.tasks.finish(task_id, { state, result: "" }, "", now)
})

/** Text is the answer, and all else comes from a tool. A rejection comes before the first step; later acts are not reached. */
const perform = Effect.fnUntraced(function* (run: Run, acts: ReadonlyArray<Act>) {
  const { createdAt, deadline, journal, request } = run.given
  const question = run.message("user", [{ type: "text", text: request.question }], yield* Clock.currentTimeMillis)
  journal.append([question], [{ event: "plan", data: { model: run.model, deadline_at: fromMillis(deadline) } }])
  let text = ""
  const begin = () => {
    run.count({ steps: 1 })
    journal.append([run.progressed("provider")], [{ event: "step", data: step }])
  }
  for (const act of acts) {
    if (act._tag === "Become" && act.state === "rejected") {
      return yield* new PlannerError({ code: "budget_exceeded", message: textOf(act.parts), data: {} })
    }
    if (run.progress.steps === 0) begin()
    if (act._tag === "Pass") {
      yield* Effect.sleep(act.duration)
      continue
    }
    const said = textOf(act.parts)
    if (act._tag === "Produce" && said === "") {
      yield* call(run, act.parts, "completed")
      continue
    }
    if (act._tag === "Become" && act.state !== "completed" && isTaskState(act.state)) yield* call(run, [], act.state)
    if (said === "") continue
    text += said
    journal.emit({ event: "text.delta", data: { ...step, delta: said } })
  }
  const { steps, tool_calls } = run.progress
  const duration_ms = (yield* Clock.currentTimeMillis) - createdAt
  const final = { stop_reason: "stop", text, usage: Usage.empty, steps, tool_calls, duration_ms } as const
  return { final, parts: [{ type: "text", text }] as const }
})

/**
 * A planner that asks no model: it does what the script says of the message's id. All else of the runtime is real. So an edge can be
 * tested by what its protocol says, and not by what a model would do.
 */
export const layer = (actsOf: (messageId: string) => ReadonlyArray<Act>): Layer.Layer<Planner> =>
  Layer.succeed(Planner, {
    run: (run) => perform(run, actsOf(run.given.request.task_message?.message_id ?? ""))
  })
