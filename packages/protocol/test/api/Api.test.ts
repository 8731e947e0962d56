import { assert, describe, it } from "@effect/vitest"
import { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { OpenApi } from "effect/http-api"
import { Api } from "../../src/api/Api.ts"

interface Operation {
  readonly summary?: string
  readonly description?: string
  readonly responses: { readonly [status: string]: { readonly content?: object } }
}

const spec: { readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } } } = JSON.parse(
  JSON.stringify(OpenApi.fromApi(Api))
) as never

describe("Api", () => {
  it("describes every route with its errors: as problem documents, or in the shape of their protocol", () => {
    const routes = Object.entries(spec.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({ route: `${method.toUpperCase()} ${path}`, operation }))
    )
    assert.deepStrictEqual(routes.map(({ route }) => route).sort(), [
      "DELETE /accounts/{name}",
      "DELETE /console/session",
      "DELETE /effects/{id}",
      "DELETE /files/{id}",
      "DELETE /keys/{id}",
      "DELETE /plans/{id}/inbox/{entry_id}",
      "DELETE /schedules/{id}",
      "DELETE /sessions/{id}",
      "DELETE /ui/chat/{id}/stream",
      "DELETE /v1/chat/completions/{id}",
      "DELETE /v1/conversations/{id}",
      "DELETE /v1/conversations/{id}/items/{item_id}",
      "DELETE /v1/files/{id}",
      "DELETE /v1/responses/{id}",
      "GET /.well-known/agent-card.json",
      "GET /.well-known/did.json",
      "GET /.well-known/oauth-protected-resource",
      "GET /.well-known/oauth-protected-resource/mcp",
      "GET /a2a/agents/{preset}/.well-known/agent-card.json",
      "GET /accounts",
      "GET /accounts/callback",
      "GET /accounts/callback/{server}",
      "GET /accounts/client",
      "GET /accounts/client/{server}",
      "GET /accounts/connect",
      "GET /agui",
      "GET /approvals",
      "GET /console/callback",
      "GET /console/config",
      "GET /console/login",
      "GET /credentials",
      "GET /effects",
      "GET /files",
      "GET /files/{id}",
      "GET /files/{id}/content",
      "GET /health",
      "GET /keys",
      "GET /metrics",
      "GET /overview",
      "GET /peers",
      "GET /peers/tools",
      "GET /plans",
      "GET /plans/{id}",
      "GET /plans/{id}/events",
      "GET /plans/{id}/export",
      "GET /plans/{id}/feedback",
      "GET /plans/{id}/inbox",
      "GET /plans/{id}/webhooks",
      "GET /presets",
      "GET /ready",
      "GET /schedules",
      "GET /schedules/{id}",
      "GET /schedules/{id}/firings",
      "GET /sessions",
      "GET /sessions/{id}",
      "GET /sessions/{id}/messages",
      "GET /ui/chat/{id}/stream",
      "GET /usage",
      "GET /v1/chat/completions",
      "GET /v1/chat/completions/{id}",
      "GET /v1/chat/completions/{id}/messages",
      "GET /v1/conversations/{id}",
      "GET /v1/conversations/{id}/items",
      "GET /v1/conversations/{id}/items/{item_id}",
      "GET /v1/files",
      "GET /v1/files/{id}",
      "GET /v1/files/{id}/content",
      "GET /v1/models",
      "GET /v1/models/{family}/{preset}",
      "GET /v1/models/{id}",
      "GET /v1/responses/{id}",
      "GET /v1/responses/{id}/input_items",
      "GET /waiting",
      "PATCH /schedules/{id}",
      "POST /accounts/connect",
      "POST /agui",
      "POST /console/session",
      "POST /credentials/{id}/clear",
      "POST /files",
      "POST /keys",
      "POST /mcp",
      "POST /plan",
      "POST /plan/check",
      "POST /plans/{id}/approvals/{task_id}",
      "POST /plans/{id}/cancel",
      "POST /plans/{id}/feedback",
      "POST /plans/{id}/fork",
      "POST /plans/{id}/inbox",
      "POST /plans/{id}/webhooks/{delivery_id}/retry",
      "POST /schedules",
      "POST /schedules/{id}/fire",
      "POST /sessions/{id}/compact",
      "POST /sessions/{id}/revert",
      "POST /ui/chat",
      "POST /v1/chat/completions",
      "POST /v1/chat/completions/{id}",
      "POST /v1/conversations",
      "POST /v1/conversations/{id}",
      "POST /v1/conversations/{id}/items",
      "POST /v1/files",
      "POST /v1/responses",
      "POST /v1/responses/compact",
      "POST /v1/responses/input_tokens",
      "POST /v1/responses/{id}/cancel"
    ])
    for (const { route, operation } of routes) {
      assert.isString(operation.summary, route)
      for (const [status, { content }] of Object.entries(operation.responses)) {
        if (Number(status) < 400) continue
        const types = Object.keys(content ?? {})
        if (route.includes("/v1/") || route === "POST /mcp") assert.include(types, "application/json", route)
        else assert.deepStrictEqual(types, ["application/problem+json"], route)
      }
    }
  })

  it("describes each event of the stream, and no event that is never sent", () => {
    const text = JSON.stringify(spec)
    for (const member of PlanEvent.members) {
      assert.include(text, `"event":{"type":"string","enum":["${member.fields.event.schema.literal}"]}`)
    }
    assert.notInclude(text, "effect/http-api/stream/failure")
  })

  it("names every check of the readiness", () => {
    assert.include(spec.paths["/ready"]?.["get"]?.description, "`database`, `database_writable`, `leases`, `draining`")
  })
})
