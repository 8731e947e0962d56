import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { Schema } from "effect"

/** A request about the plan of another caller. */
interface Request {
  readonly what: string
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** What the caller is told who has a key: the status, a blank, and the body. */
  readonly told: RegExp
}

/** What came of it. `other`: a caller with a key asks. */
export interface Crossing {
  readonly who: "other" | "nobody" | "stranger"
  /** Who has asked, where it is `other`. */
  readonly caller: CallerName
  readonly request: Request
  readonly status: number
  /** The header `www-authenticate`. */
  readonly challenge: string | undefined
  readonly text: string
}

const json = { "content-type": "application/json" }

const get = (path: string, told: RegExp): Request => ({ what: `GET ${path}`, method: "GET", path, told })

const post = (path: string, body: Schema.Json, told: RegExp, headers = {}): Request => ({
  what: `POST ${path} ${JSON.stringify(body)}`,
  method: "POST",
  path,
  headers: { ...json, ...headers },
  body: JSON.stringify(body),
  told
})

const rpc = (path: string, method: string, params: Schema.Json, told: RegExp, headers: object) =>
  post(path, { jsonrpc: "2.0", id: 1, method, params }, told, headers)

const problem = /^404 .*"code":"not_found"/s
const openAi = /^404 .*"error"/s
const list = /^200 /

const a2a = (method: string, params: Schema.Json, told: RegExp) =>
  rpc("/a2a", method, params, told, { "a2a-version": "1.0" })

const tool = (name: string, input: Schema.Json) =>
  rpc("/mcp", "tools/call", { name, arguments: input }, /^200 .*not_found/s, {
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25"
  })

const unknownTask = /^200 .*"code":-32001/s

/** All ways to reach a plan of which one knows the id, and the lists of what a caller has. */
export const requestsOf = (plan: PlanId): readonly [Request, ...ReadonlyArray<Request>] => [
  get(`/plans/${plan}`, problem),
  get(`/plans/${plan}/events`, problem),
  post(`/plans/${plan}/cancel`, {}, problem),
  post(`/plans/${plan}/approvals/task_1`, { decision: "approve" }, problem),
  get(`/v1/responses/resp_${plan}`, openAi),
  get(`/v1/responses/resp_${plan}?stream=true`, openAi),
  post(`/v1/responses/resp_${plan}/cancel`, {}, openAi),
  { ...get(`/v1/responses/resp_${plan}`, openAi), what: `DELETE resp_${plan}`, method: "DELETE" },
  a2a("GetTask", { id: plan }, unknownTask),
  a2a("CancelTask", { id: plan }, unknownTask),
  a2a("SubscribeToTask", { id: plan }, unknownTask),
  tool("plan_result", { plan_id: plan }),
  tool("plan_cancel", { plan_id: plan }),
  get("/plans?limit=200", list),
  get("/approvals?limit=100", list),
  get("/sessions/s0/messages?limit=200", /^(200|404) /),
  a2a("ListTasks", {}, list)
]

/** The plan for which nobody with a key has asked. */
export const ofNobody = "nobody"
const question = `FACT-${ofNobody}`

/** The same, and all ways to ask. */
export const allOf = (plan: PlanId): ReturnType<typeof requestsOf> => [
  ...requestsOf(plan),
  post("/plan", { question }, list),
  post("/v1/chat/completions", { model: "bowline", messages: [{ role: "user", content: question }] }, list),
  post("/v1/responses", { model: "bowline", input: question }, list),
  a2a("SendMessage", { message: { messageId: "m", role: "ROLE_USER", parts: [{ text: question }] } }, list),
  tool("plan", { question })
]

/** The caller has asked too often, or the replica does not reach the store or shuts down. A tool of MCP says it in a text of JSON within JSON. */
const passing = /^(429|503) |\\?"(unavailable|draining)\\?"/

/** What is wrong with an answer that has told of these plans of others. */
export const wrongIn = (
  { challenge, request: { told, what }, status, text, who }: Crossing,
  plans: ReadonlyArray<string>
): ReadonlyArray<string> => {
  const said = (wrong: string) => [`${who} asks ${what}, and ${wrong}: ${status} ${text}`]
  if (plans.length > 0) return said(`is told of ${plans.join(", ")}`)
  if (who === "other") return told.test(`${status} ${text}`) || passing.test(`${status} ${text}`) ? [] : said("gets it")
  const expected = `Bearer realm="bowline"${who === "stranger" ? ', error="invalid_token"' : ""}`
  return status === 401 && challenge === expected ? [] : said(`is not refused, but told ${challenge}`)
}
