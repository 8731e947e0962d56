import type { Json, Plan, PlanRequest } from "@bowline/client"
import { isObject, type JsonObject } from "./FormValues.ts"

/** What a request says of a tool. */
export interface KnownTool {
  readonly name: string
  readonly description: string | null
  readonly schema: { readonly [key: string]: Json } | null
}

/** Where tools come from whose list the request does not have. */
export interface ToolSource {
  readonly kind: "agent" | "mcp server" | "preset"
  readonly name: string
  /** Why the tools themselves are not known here. */
  readonly why: string
}

type Skill = NonNullable<NonNullable<PlanRequest["agents"]>[number]["skills"]>[number]

const isSkill = (value: unknown): value is Skill =>
  typeof value === "object" && value !== null && "id" in value && typeof value.id === "string"

interface Named {
  readonly name: string
}

const isNamed = (value: unknown): value is Named =>
  typeof value === "object" && value !== null && "name" in value && typeof value.name === "string"

const list = (value: Json | undefined): ReadonlyArray<Named> => (Array.isArray(value) ? value.filter(isNamed) : [])

const skillsOf = (agent: object): ReadonlyArray<Skill> =>
  "skills" in agent && Array.isArray(agent.skills) ? agent.skills.filter(isSkill) : []

/** As the gateway names the tool of a skill; a name that is too long ends in a hash that the page cannot make. */
const toolName = (agent: string, skill: string): string => `${agent}_${skill}`.replaceAll(/[^\w-]/g, "_")

/** The tools that the client runs itself. */
const clientTools = (request: Plan["request"]): ReadonlyArray<JsonObject> => {
  const tools = request?.["tools"]
  return Array.isArray(tools) ? tools.filter((tool) => isObject(tool)) : []
}

const toKnown = ({ description, input_schema, name }: JsonObject): KnownTool => ({
  name: typeof name === "string" ? name : "",
  description: typeof description === "string" ? description : null,
  schema: isObject(input_schema) ? input_schema : null
})

/** The tools that a request names itself, and where the others come from. */
export const toolsOf = ({
  preset,
  request
}: Pick<Plan, "preset" | "request">): {
  readonly tools: ReadonlyArray<KnownTool>
  readonly sources: ReadonlyArray<ToolSource>
} => {
  const agents = list(request?.["agents"])
  const tools = agents.flatMap((agent) =>
    skillsOf(agent).map(({ description = null, id, input_schema: schema = null }): KnownTool => ({
      name: toolName(agent.name, id),
      description,
      schema
    }))
  )
  const sources = [
    ...agents
      .filter((agent) => skillsOf(agent).length === 0)
      .map(({ name }): ToolSource => ({ kind: "agent", name, why: "as its agent card listed them" })),
    ...list(request?.["mcp_servers"]).map(({ name }): ToolSource => ({
      kind: "mcp server",
      name,
      why: "as it listed them when the plan began"
    })),
    ...(preset === null ? [] : [{ kind: "preset" as const, name: preset, why: "as the configuration had them" }])
  ]
  return { tools: [...tools, ...clientTools(request).map(toKnown)], sources }
}

/** The schema of the result of a tool that the client runs, if the request brought it. */
export const outputSchemaOf = ({ request }: Pick<Plan, "request">, tool: string): Json =>
  clientTools(request).find(({ name }) => name === tool)?.["output_schema"] ?? null

/** The schema of a tool, if the request brought it. */
export const schemaOf = (plan: Pick<Plan, "preset" | "request">, tool: string): KnownTool["schema"] =>
  toolsOf(plan).tools.find(({ name }) => name === tool)?.schema ?? null
