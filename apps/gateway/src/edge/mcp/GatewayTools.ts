import { PlanId } from "@bowline/domain/plan/Plan"
import { PlanRequest, type SkillCall } from "@bowline/domain/plan/PlanRequest"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import { defaultPreset, type Preset, type PresetSkill } from "@bowline/runtime/unstable/config/Presets"
import { Effect, Result, Schema, Struct } from "effect"
import { invalid, type Refused } from "../../http/Refusals.ts"
import type { Answered } from "./Elicitation.ts"
import { PlanAnswer } from "./PlanAnswer.ts"
import { hasStructure, type Revision } from "./Revision.ts"

const usualWaitMs = 45_000

const WaitMs = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 300_000 })).pipe(
  Schema.annotate({
    description:
      "Milliseconds to wait for the answer. A plan that runs longer goes on, and is asked for by plan_result",
    default: usualWaitMs
  }),
  Schema.withDecodingDefaultKey(Effect.succeed(usualWaitMs))
)

const PlanArguments = Schema.Struct({
  question: PlanRequest.fields.question.annotate({ description: "What the agents are to answer or do" }),
  session_id: PlanRequest.fields.session_id.annotate({
    description: "Your name of a conversation, 1..200 printable ASCII characters. Without it the question stands alone"
  }),
  preset: PlanRequest.fields.preset.annotate({ description: "A configured set of agents to ask" }),
  wait_ms: WaitMs
})
const AskArguments = PlanArguments.mapFields(Struct.omit(["preset"]))

const CancelArguments = Schema.Struct({
  plan_id: PlanId.annotate({ description: "The plan_id that an earlier call has answered" })
})
const ResultArguments = Schema.Struct({ ...CancelArguments.fields, wait_ms: WaitMs })

/** What a call asks for. */
export type Call =
  | ({ readonly _tag: "Ask"; readonly call?: SkillCall } & typeof PlanArguments.Type)
  | ({ readonly _tag: "Result" } & typeof ResultArguments.Type)
  /** `isHandedOut`: the caller knows of the plan, which goes on when this call ends. */
  | ({ readonly _tag: "Resume"; readonly wait_ms: number; readonly isHandedOut: boolean } & Answered)
  | ({ readonly _tag: "Cancel" } & typeof CancelArguments.Type)

interface GatewayTool {
  readonly name: string
  readonly description: string
  readonly inputSchema: object
  readonly annotations: object
  readonly read: (input: unknown) => Result.Result<Call, Refused>
}

const schemaOf = (schema: Schema.Constraint) => ({ ...Schema.toJsonSchemaDocument(schema).schema, type: "object" })

/** What a tool takes: these arguments and no others. */
const takes = <A>(input: Schema.ConstraintCodec<A, unknown>) => {
  const decode = Schema.decodeUnknownResult(input, { errors: "all", onExcessProperty: "error" })
  return {
    inputSchema: { ...schemaOf(Schema.toEncoded(input)), additionalProperties: false },
    readAs:
      (toCall: (input: A) => Call): GatewayTool["read"] =>
      (given) =>
        Result.mapBoth(decode(given), { onSuccess: toCall, onFailure: (error) => invalid(fromSchema(error)) })
  }
}

const planned = takes(PlanArguments)
const asked = takes(AskArguments)
const awaited = takes(ResultArguments)
const cancelled = takes(CancelArguments)

const outputSchema = schemaOf(PlanAnswer)

const asking = { readOnlyHint: false, destructiveHint: true, openWorldHint: true }
const looking = { readOnlyHint: true, openWorldHint: false }
const ending = { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false }

const ownTools: ReadonlyArray<GatewayTool> = [
  {
    name: "plan",
    description:
      "Asks a question: a planner calls the gateway's agents and tools, step by step, until there is an answer. A plan that " +
      "takes longer than wait_ms runs on, and plan_result waits for it.",
    inputSchema: planned.inputSchema,
    annotations: asking,
    read: planned.readAs((input) => ({ _tag: "Ask", ...input }))
  },
  {
    name: "plan_result",
    description: "Waits for the answer of a plan that an earlier call has started.",
    inputSchema: awaited.inputSchema,
    annotations: looking,
    read: awaited.readAs((input) => ({ _tag: "Result", ...input }))
  },
  {
    name: "plan_cancel",
    description: "Ends a plan that still runs, and everything that its agents do for it.",
    inputSchema: cancelled.inputSchema,
    annotations: ending,
    read: cancelled.readAs((input) => ({ _tag: "Cancel", ...input }))
  }
]

const ofPreset = ({ agents, description, name, servers }: Preset): GatewayTool => {
  const brings = [...agents.map(({ name }) => name), ...servers.map(({ terms }) => terms.name)].join(", ")
  return {
    name: `ask_${name}`,
    description:
      description ?? `Asks ${brings === "" ? `the preset ${name}` : brings}, as plan with the preset ${name}.`,
    inputSchema: asked.inputSchema,
    annotations: asking,
    read: asked.readAs((input) => ({ _tag: "Ask", ...input, preset: name }))
  }
}

const readInput = Schema.decodeUnknownResult(Schema.Record(Schema.String, Schema.Json), { errors: "all" })

/** How many characters of a call stand in the question of its plan, for whoever looks at the plans. */
const maxQuestion = 2_000

const ofSkill = ({ agent, preset, skill, ...tool }: PresetSkill): GatewayTool => ({
  name: tool.name,
  description: tool.description,
  // Some clients refuse a whole list for one schema without a type. A call takes an object in any case.
  inputSchema: { ...tool.inputSchema, type: "object" },
  annotations: { ...asking, idempotentHint: tool.isIdempotent },
  read: (given) =>
    Result.mapBoth(readInput(given), {
      onSuccess: (input): Call => ({
        _tag: "Ask",
        question: `${tool.name} ${JSON.stringify(input)}`.slice(0, maxQuestion).toWellFormed(),
        wait_ms: usualWaitMs,
        ...(preset !== defaultPreset && { preset }),
        call: { agent, skill, input }
      }),
      onFailure: (error) => invalid(fromSchema(error))
    })
})

/** The tools of a caller who may use these presets, and may call these skills. Of two with one name the first one stays. */
export const toolsOf = (
  presets: ReadonlyArray<Preset>,
  skills: ReadonlyArray<PresetSkill>
): ReadonlyArray<GatewayTool> => {
  const tools = new Map<string, GatewayTool>()
  const ofPresets = presets.filter(({ name }) => name !== defaultPreset).map(ofPreset)
  for (const tool of [...ownTools, ...ofPresets, ...skills.map(ofSkill)]) {
    if (!tools.has(tool.name)) tools.set(tool.name, tool)
  }
  return Array.from(tools.values())
}

/** A tool as a list shows it. */
export const describe = ({ annotations, description, inputSchema, name }: GatewayTool, revision: Revision) => ({
  name,
  description,
  inputSchema,
  ...(hasStructure(revision) && { outputSchema }),
  annotations
})
