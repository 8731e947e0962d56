import { PlanId } from "@bowline/domain/plan/Plan"
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { TaskState, ToolKind } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import { Option, Redacted, Result, Schema, Struct } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { fromEvents } from "../../src/store/EventRow.ts"
import { restore, store, type StoredRequest, written } from "../../src/store/StoredRequest.ts"

const planId = PlanId.make("plan_00000000-0000-4000-8000-000000000001")
const key = Option.some(Redacted.make(new Uint8Array(32).fill(7)))

const kept = (file: string) => JSON.parse(readFileSync(join(import.meta.dirname, "former", file), "utf8")) as unknown

const Kept = Schema.Struct({
  request: Schema.Record(Schema.String, Schema.Json),
  event: Schema.Record(Schema.String, Schema.Json),
  task: Schema.Record(Schema.String, Schema.Json)
})

/** What the former version can read. It ignores fields that it does not know, and needs a list of agents. */
const schemas = Schema.decodeUnknownSync(Kept)(kept("schemas.json"))
const ajv = new Ajv2020({ strict: false, allErrors: true })
const validators = {
  request: ajv.compile({ ...schemas.request, required: ["question", "agents"] }),
  event: ajv.compile(schemas.event),
  task: ajv.compile(schemas.task)
}

/** What a request may say besides its question, its agents and its servers. */
const { agents: _, history: __, mcp_servers: ___, question: ____, session_id: _____, ...others } = PlanRequest.fields
const Drawn = Schema.toEncoded(Schema.Struct(others))

const endpoint = "https://bob.example/?key=secret"
const agents = [
  { name: "bob", endpoint, auth: { type: "bearer", token: "secret" }, skills: [{ id: "ask", idempotent: true }] },
  { name: "amy", endpoint: "https://amy.example/", dialect: "bindu", trust: { verify_did: true }, streaming: false }
]
const mcp_servers = [{ name: "files", url: "https://mcp.example/", headers: { "x-key": "secret" } }]

const reads = (kind: keyof typeof validators, value: unknown) => {
  const validate = validators[kind]
  assert.isTrue(validate(JSON.parse(JSON.stringify(value))), JSON.stringify([value, validate.errors]))
}

describe("the former version", () => {
  it.prop("reads the stored request of any running plan", { drawn: Drawn }, ({ drawn }) => {
    const sent = { ...drawn, question: "What?", agents, mcp_servers }
    const stored = store(sent, planId, key)
    const whole = Result.getOrThrow(restore(stored, planId, key))
    // It puts the secrets in again, too.
    reads("request", { ...Object(stored.request), ...Struct.pick(written(whole), ["agents", "mcp_servers"]) })
  })

  it("reads the stored request of a plan without agents", () => {
    reads("request", store({ question: "What?" }, planId, key).request)
  })

  // It takes no plan further that somebody has talked to: one that falls to it is taken over again.
  const isNew = (name: string) => ["waiting", "parked", "woken"].includes(name) || name.startsWith("inbox.")
  for (const event of PlanEvent.members.filter(({ fields }) => !isNew(fields.event.schema.literal))) {
    it.prop(`reads what is stored of the event ${event.fields.event.schema.literal}`, { event }, ({ event }) => {
      // Nor does it show the end of one that waited for somebody else than an approver, or a call of a tool of the client.
      if (event.event === "error" && event.data.stage === "client") return
      if (event.event === "task.started" && event.data.kind === "client") return
      // Or the end of one that has used up its money: it knows no such limit.
      if (event.event === "final" && event.data.stop_reason === "max_cost") return
      // Or asks about a call that may have been made before.
      if (event.event === "approval.requested" && ["fork", "maybe_done"].includes(event.data.why)) return
      for (const { payload } of fromEvents(1, "2026-01-02T03:04:05.678Z", [event])) {
        reads("event", { event: event.event, data: JSON.parse(payload) as unknown })
      }
    })
  }

  const kind = ToolKind.pick(["peer", "mcp", "local", "recipe"])
  it.prop("reads the rows of calls", { kind, state: TaskState }, (row) => reads("task", row))
})

const StoredRequests = Schema.Array(Schema.Struct({ request: Schema.Json, secrets: Schema.NullOr(Schema.String) }))

it("reads the requests that former versions have stored", () => {
  const stored: ReadonlyArray<StoredRequest> = Schema.decodeUnknownSync(StoredRequests)(kept("requests.json"))
  const restored = stored.map((one) => Result.getOrThrow(restore(one, planId, key)))
  assert.deepStrictEqual(
    restored.map(({ question }) => question),
    ["What?", "What?", "What?"]
  )
  assert.nestedPropertyVal(
    restored.map((request) => written(request)),
    "[1].agents[0].auth.token",
    "secret"
  )
})
