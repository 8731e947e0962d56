// Writes `src/Wire.ts` and `src/OperatorWire.ts`: the types of the API for callers without Effect.
import { Agent, AgentAuth, Skill } from "@bowline/domain/peer/Agent"
import { Compacted } from "@bowline/domain/session/Session"
import { MessagePart } from "@bowline/domain/session/Message"
import { AbortReason, Failure, Final, Stage, StopReason } from "@bowline/domain/plan/Outcome"
import { PlanState } from "@bowline/domain/plan/Plan"
import { Api } from "@bowline/protocol/api/Api"
import { SseFrame } from "@bowline/protocol/stream/SseFrame"
import { TaskError } from "@bowline/domain/plan/PlanEvent"
import { TaskState, ToolEffect } from "@bowline/domain/tool/TaskState"
import { Usage } from "@bowline/domain/plan/Usage"
import { Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { writeFileSync } from "node:fs"

interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | ReadonlyArray<string>
  readonly enum?: ReadonlyArray<unknown>
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly oneOf?: ReadonlyArray<JsonSchema>
  readonly items?: JsonSchema | false
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
  readonly additionalProperties?: JsonSchema | boolean
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>
}

/** The bodies that the client sends and gets, by their names in the OpenAPI document. */
const bodies = [
  "PlanRequest",
  "GivenFork",
  "Plan",
  "PlanSummary",
  "Session",
  "ListedSession",
  "Message",
  "PendingApproval",
  "Approval",
  "NewEntry",
  "AcceptedEntry",
  "Waiting",
  "Preset",
  "Credential",
  "Peer",
  "McpServerStatus",
  "Overview",
  "NewKey",
  "IssuedKey",
  "ShownKey",
  "ConnectedAccount",
  "Feedback",
  "Spending",
  "StoredFile",
  "Schedule",
  "Firing"
]

const schemas = JSON.parse(JSON.stringify(OpenApi.fromApi(Api).components.schemas)) as Readonly<
  Record<string, JsonSchema>
>

const schemaOf = (schema: Schema.Top): JsonSchema => {
  const document = JSON.parse(JSON.stringify(Schema.toJsonSchemaDocument(schema))) as {
    readonly schema: JsonSchema
    readonly definitions: Readonly<Record<string, JsonSchema>>
  }
  return inline(document.schema, document.definitions)
}

/** What a value is. How long it may be, and what it means, says nothing of its type. */
const shape = new Set([
  "type",
  "enum",
  "anyOf",
  "oneOf",
  "items",
  "properties",
  "required",
  "additionalProperties",
  "patternProperties"
])

const inline = (schema: JsonSchema, definitions: Readonly<Record<string, JsonSchema>>): JsonSchema => {
  const name = schema.$ref?.split("/").at(-1)
  if (name !== undefined) return inline(definitions[name] ?? {}, definitions)
  const each = (value: unknown): unknown =>
    typeof value === "object" && value !== null && !Array.isArray(value) ? inline(value, definitions) : value
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key, value]) => shape.has(key) && value !== false)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]): [string, unknown] => {
        if (key === "properties" || key === "patternProperties") {
          return [key, Object.fromEntries(Object.entries(value as object).map(([name, one]) => [name, each(one)]))]
        }
        if (key === "required") return [key, (value as ReadonlyArray<string>).toSorted()]
        return [key, key === "anyOf" || key === "oneOf" ? (value as ReadonlyArray<unknown>).map(each) : each(value)]
      })
  )
}

const newSchedule = inline(schemas["NewSchedule"] ?? {}, schemas)

const named: ReadonlyArray<readonly [name: string, schema: JsonSchema]> = [
  ["AbortReason", schemaOf(AbortReason)],
  ["Stage", schemaOf(Stage)],
  ["StopReason", schemaOf(StopReason)],
  ["PlanState", schemaOf(PlanState)],
  ["TaskState", schemaOf(TaskState)],
  ["TaskError", schemaOf(TaskError)],
  ["Usage", schemaOf(Usage)],
  ["Final", schemaOf(Final)],
  ["Failure", schemaOf(Failure)],
  ["AgentAuth", schemaOf(AgentAuth)],
  ["ToolEffect", schemaOf(ToolEffect)],
  ["Skill", schemaOf(Skill)],
  ["Agent", schemaOf(Agent)],
  ["MessagePart", schemaOf(MessagePart)],
  ["Compacted", schemaOf(Compacted)],
  ["When", newSchedule.properties?.["when"] ?? {}],
  ...bodies.map((name) => [name, inline(schemas[name] ?? {}, schemas)] as const),
  ["SchedulePlan", newSchedule.properties?.["plan"] ?? {}],
  ["NewSchedule", newSchedule],
  ["ScheduleChange", inline(schemas["ScheduleChange"] ?? {}, schemas)]
]

/** Types that have all that another one has, and more. */
const bases: Readonly<Record<string, string>> = { SchedulePlan: "PlanRequest" }

/** The names of types, by their texts: a type is written once. */
const names = new Map<string, string>()

const indent = (text: string): string => text.replaceAll("\n", "\n  ")

/** Effect has strings for numbers that JSON cannot write. */
const odd = new Set(["Infinity", "-Infinity", "NaN"])

const toUnion = (members: ReadonlyArray<string>): string => {
  const line = [...new Set(members)].join(" | ")
  return line.length < 100 && !line.includes("\n") ? line : members.map((member) => `\n  | ${indent(member)}`).join("")
}

const toObject = (lines: ReadonlyArray<string>): string => {
  const line = `{ ${lines.join("; ")} }`
  return line.length < 90 && !line.includes("\n") ? line : `{\n  ${lines.map(indent).join("\n  ")}\n}`
}

const render = (schema: JsonSchema): string => {
  const text = renderWhole(schema)
  return names.get(text) ?? text
}

const renderWhole = (schema: JsonSchema): string => {
  const { anyOf, items, oneOf, properties, required = [], type } = schema
  const members = anyOf ?? oneOf
  if (schema.enum !== undefined) return toUnion(schema.enum.map((value) => JSON.stringify(value)))
  if (members !== undefined) {
    // A union of unions is one.
    const flat = members.flatMap((member) => member.anyOf ?? member.oneOf ?? [member])
    return toUnion(flat.filter(({ enum: [only] = [] }) => !odd.has(String(only))).map((member) => render(member)))
  }
  if (Array.isArray(type)) return type.map((one: string) => render({ ...schema, type: one })).join(" | ")
  switch (type) {
    case "integer":
    case "number":
      return "number"
    case "string":
    case "boolean":
    case "null":
      return type
    case "array":
      return `ReadonlyArray<${items === undefined || items === false ? "Json" : render(items)}>`
    case "object": {
      const fields = Object.entries(properties ?? {})
      const rest = schema.additionalProperties ?? Object.values(schema.patternProperties ?? {})[0]
      if (fields.length === 0) return `{ readonly [key: string]: ${typeof rest === "object" ? render(rest) : "Json"} }`
      return toObject(
        fields.map(([key, value]) => `readonly ${key}${required.includes(key) ? "" : "?"}: ${render(value)}`)
      )
    }
    default:
      return "Json"
  }
}

/** The types of frames: what every payload has is written once. */
const renderFrames = ({ anyOf = [], oneOf = anyOf }: JsonSchema): string => {
  const head = ["plan_id", "session_id", "at"]
  const members = oneOf.map(({ properties: { data, event } = {} }) => {
    const fields = Object.entries(data?.properties ?? {}).filter(([name]) => !head.includes(name))
    const own = fields.length === 0 ? "" : ` & ${indent(render({ ...data, properties: Object.fromEntries(fields) }))}`
    return `{ readonly id: number; readonly event: ${render(event ?? {})}; readonly data: FrameHead${own} }`
  })
  const [first] = oneOf
  const inHead = Object.entries(first?.properties?.["data"]?.properties ?? {}).filter(([name]) => head.includes(name))
  return [
    "/** What every payload has. */",
    `export interface FrameHead ${render({ type: "object", properties: Object.fromEntries(inHead), required: inHead.map(([name]) => name) })}\n`,
    `export type PlanFrame =${toUnion(members)}\n`
  ].join("\n")
}

/** What a type has beside its base. */
const renderAddition = (base: string, { properties = {}, ...schema }: JsonSchema): string => {
  const known: Readonly<Record<string, JsonSchema>> = named.find(([name]) => name === base)?.[1].properties ?? {}
  const isOwn = ([name]: readonly [string, JsonSchema]): boolean => !(name in known)
  const [own, rest] = [
    Object.entries(properties).filter(isOwn),
    Object.entries(properties).filter((one) => !isOwn(one))
  ]
  const narrower = rest.filter(([name, value]) => render(value) !== render(known[name] ?? {}))
  const ofBase = Object.fromEntries(rest)
  for (const [name] of narrower) Object.assign(ofBase, { [name]: known[name] })
  if (render({ ...schema, properties: ofBase }) !== base) throw new Error(`It is no ${base}`)
  const names = narrower.map(([name]) => JSON.stringify(name)).join(" | ")
  const inherited = names === "" ? base : `Omit<${base}, ${names}>`
  return `${inherited} & ${renderWhole({ ...schema, properties: Object.fromEntries([...narrower, ...own]) })}`
}

const declare = (name: string, schema: JsonSchema): string => {
  const text = renderWhole(schema)
  names.set(text, name)
  const base = bases[name]
  if (base !== undefined) return `export type ${name} = ${renderAddition(base, schema)}\n`
  if (schema.type === "object") return `export interface ${name} ${text}\n`
  return `export type ${name} =${text.startsWith("\n") ? "" : " "}${text}\n`
}

/** Types with a file of their own: what operators look at, and what is said to plans. */
const own: Readonly<Record<string, ReadonlyArray<string>>> = {
  "FileWire.ts": ["StoredFile"],
  "ForkWire.ts": ["GivenFork"],
  "InboxWire.ts": ["NewEntry", "AcceptedEntry", "Waiting", "PendingApproval", "Approval"],
  "OperatorWire.ts": [
    "ListedSession",
    "Credential",
    "Peer",
    "McpServerStatus",
    "Overview",
    "Preset",
    "NewKey",
    "IssuedKey",
    "ShownKey",
    "ConnectedAccount",
    "Feedback",
    "Spending"
  ],
  "SessionWire.ts": ["Session", "Message"],
  "ScheduleWire.ts": ["When", "Schedule", "Firing", "SchedulePlan", "NewSchedule", "ScheduleChange"]
}

const made = `// Made of the schemas of the API by \`node packages/client/test/wire/makeWire.ts\`. A test says when it has to be made again.
`

const json = `/** Any value of JSON. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }
`

const declared = named.map(([name, schema]) => ({ name, text: declare(name, schema) }))
const textOf = (types: typeof declared): string => types.map(({ text }) => text).join("\n")
const common = declared.filter(({ name }) => !Object.values(own).flat().includes(name))

const renderOwn = (names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const text = textOf(declared.filter(({ name }) => names.includes(name)))
  const used = ["Json", ...common.map(({ name }) => name)].filter((name) => new RegExp(`\\b${name}\\b`).test(text))
  return [made, ...(used.length === 0 ? [] : [`import type { ${used.join(", ")} } from "./Wire.ts"\n`]), text]
}

/** The texts of the files, by their URLs. */
export const files: ReadonlyMap<URL, string> = new Map(
  Object.entries({
    "Wire.ts": [made, json, textOf(common), renderFrames(schemaOf(Schema.toType(SseFrame)))],
    ...Object.fromEntries(Object.entries(own).map(([file, names]) => [file, renderOwn(names)]))
  }).map(([name, parts]) => [new URL(`../../src/${name}`, import.meta.url), parts.join("\n")])
)

if (import.meta.main) for (const [url, text] of files) writeFileSync(url, text)
