import { Context, Effect, Exit } from "effect"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { Tool, ToolInput, ToolResult } from "../tool/Tool.ts"
import type { Preset } from "../config/Presets.ts"
import * as GenAi from "./GenAi.ts"
import * as Instrument from "./Instrument.ts"
import * as Spans from "./Spans.ts"

/** The call to observe. */
interface Subject {
  readonly tool: Tool
  readonly input: ToolInput
  readonly taskId: TaskId
  readonly preset: Preset
}

const duration = Instrument.histogram({
  name: "gen_ai.execute_tool.duration",
  description: "From making a call of a tool to its end",
  unit: "s",
  labels: {
    [GenAi.operation]: "`execute_tool`",
    [GenAi.tool]: "tools of the gateway and of the configured agents and servers, 1,000 at most, and `other`",
    [GenAi.toolType]: "`extension`, `function`",
    [GenAi.errorType]: "the codes and states of calls in the reference of peers; absent without an error"
  }
})

/** A server may name its tools anew, as often as it likes. */
const maxNames = 1_000
const names = new Set<string>()

/** The tools of callers are counted together. */
const nameOf = ({ agent, kind, name }: Tool, { agents, servers }: Preset): string => {
  const isOwn =
    kind === "local" ||
    kind === "recipe" ||
    agents.some((own) => own.name === agent) ||
    servers.some(({ terms }) => terms.name === agent)
  if (!isOwn || (names.size >= maxNames && !names.has(name))) return "other"
  names.add(name)
  return name
}

const measure = ({ preset, tool }: Subject) =>
  Instrument.timed<ToolResult>((seconds, exit, context: Context.Context<never>) => {
    if (!Context.get(context, GenAi.Latest)) return
    const ended = Exit.isSuccess(exit) ? errorTypeOf(exit.value) : Spans.errorTypeOf(exit)
    const labels = {
      [GenAi.operation]: "execute_tool",
      [GenAi.tool]: nameOf(tool, preset),
      [GenAi.toolType]: typeOf(tool),
      [GenAi.errorType]: ended
    }
    duration.updateUnsafe(seconds, labels, context)
  })

const errorTypeOf = ({ error, state }: ToolResult): string | undefined =>
  state === "completed" ? undefined : (error?.code ?? state)

/** A tool of the caller is one that the model only writes the arguments for. */
const typeOf = ({ kind }: Tool): string => (kind === "client" ? "function" : "extension")

const isRemote = ({ kind }: Tool): boolean => kind === "peer" || kind === "mcp"

/** Gives the call of a tool its span. A call that does not complete is an error, by its code. */
export const observe = (call: Effect.Effect<ToolResult>, subject: Subject): Effect.Effect<ToolResult> => {
  const { input, taskId, tool } = subject
  return Spans.use(
    `execute_tool ${tool.name}`,
    (content, isLatest) => ({
      // The requests that it makes have spans of clients.
      kind: isRemote(tool) && !isLatest ? "client" : "internal",
      attributes: {
        [GenAi.operation]: "execute_tool",
        [GenAi.tool]: tool.name,
        [GenAi.toolCall]: taskId,
        [GenAi.toolKind]: tool.kind,
        ...(isLatest && { [GenAi.toolType]: typeOf(tool) }),
        ...(tool.agent !== null && { [GenAi.peer]: tool.agent }),
        ...(content && { [GenAi.toolArguments]: JSON.stringify(input) })
      }
    }),
    (span) =>
      span === undefined
        ? call
        : Effect.tap(call, (ended) =>
            Effect.flatMap(Spans.Content, (isShown) => {
              span.attribute(GenAi.taskState, ended.state)
              if (isShown) span.attribute(GenAi.toolResult, ended.content)
              const type = errorTypeOf(ended)
              return type === undefined ? Effect.void : Spans.fail(span, type)
            })
          )
  ).pipe(measure(subject))
}
