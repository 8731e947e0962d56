import { assert, describe, it } from "@effect/vitest"
import { changed, parse, planHref, sessionHref } from "../../src/route/Route.ts"

describe("Route", () => {
  it.each([
    ["/", { page: "ask" }],
    ["/overview", { page: "overview" }],
    ["/usage", { page: "usage" }],
    ["/accounts", { page: "accounts" }],
    ["/plans", { page: "plans" }],
    ["/plans/", { page: "plans" }],
    ["/plans/plan_1", { page: "plan", id: "plan_1" }],
    ["/sessions/my%20knots%2F1", { page: "session", id: "my knots/1" }],
    ["/approvals", { page: "approvals" }],
    ["/schedules", { page: "schedules" }],
    ["/schedules/s%2F1", { page: "schedule", id: "s/1" }],
    ["/peers", { page: "peers" }],
    ["/credentials", { page: "credentials" }],
    ["/plans/a/b", { page: "unknown" }],
    ["/peers/a", { page: "unknown" }],
    ["/sessions/%", { page: "unknown" }],
    ["/toString", { page: "unknown" }]
  ])("finds the page of %s", (path, route) => {
    assert.deepStrictEqual(parse(path), route as ReturnType<typeof parse>)
  })

  it("leads back to the same page, whatever an id has in it", () => {
    for (const id of ["a b", "a/b", "ü?#%", ".."]) {
      assert.deepStrictEqual(parse(planHref(id)), { page: "plan", id })
      assert.deepStrictEqual(parse(sessionHref(id)), { page: "session", id })
    }
  })

  it("changes some parameters of a query, and leaves the others", () => {
    const query = new URLSearchParams("q=a+b&state=failed&cursor=9")
    assert.strictEqual(
      changed(query, { cursor: null, state: ["queued", "running"] }),
      "?q=a+b&state=queued&state=running"
    )
    assert.strictEqual(changed(query, { cursor: null, state: [], q: "" }), "")
  })
})
