// Keeps what this version can read of the running plans of others, as JSON Schemas in the file that it is given. It runs when a version is released: the next one
// must write nothing else.
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { TaskState, ToolKind } from "@bowline/domain/tool/TaskState"
import { Schema } from "effect"
import { writeFileSync } from "node:fs"

const StoredTask = Schema.Struct({ kind: ToolKind, state: Schema.Union([TaskState, Schema.Literal("running")]) })

const schemas = { request: PlanRequest, event: PlanEvent, task: StoredTask }
const documents = Object.entries(schemas).map(([name, schema]) => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema)
  return [name, { ...root, $defs: definitions }]
})
writeFileSync(process.argv[2] ?? "", `${JSON.stringify(Object.fromEntries(documents))}\n`)
