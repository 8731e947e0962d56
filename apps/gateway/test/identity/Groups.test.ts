import { completes } from "@bowline/testing/peer/Act"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Schedule, Scope } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, send, start, stores } from "../http/RunningGateway.ts"
import { audience, newKey, serve, sign } from "./OpenIdProvider.ts"

const script: Script = (asked) =>
  results(asked).length === 0 ? [callTool("bank_pay", { input: "7" })] : [say(results(asked).join())]

it.live("another replica goes on with a plan by the groups that its caller had when it was asked", () =>
  Effect.gen(function* () {
    const bank = yield* ScriptedPeer.serve({ acts: [completes()] })
    const key = yield* newKey("one")
    const provider = yield* serve([key])
    const folder = yield* folderOf({
      "gateway.json": JSON.stringify({
        auth: { jwt: [{ name: "corp", issuer: provider.issuer, audience, groups: { claim: "groups" } }] },
        permissions: { "*": { tools: { deny: ["*"] } }, "group:staff": { tools: { allow: ["bank_*"] } } }
      })
    })
    const settings = {
      ...(yield* stores.postgres),
      BOWLINE_CONFIG: join(folder, "gateway.json"),
      BOWLINE_SHUTDOWN_GRACE: "0s"
    }
    const claims = { iss: provider.issuer, aud: audience, sub: "alice", exp: Math.floor(Date.now() / 1_000) + 600 }
    const staff = { authorization: `Bearer ${yield* sign(key, { ...claims, groups: ["staff"] })}` }
    const noMore = { authorization: `Bearer ${yield* sign(key, claims)}` }

    const first = yield* Scope.make()
    const one = yield* Scope.provide(start(script, settings), first)
    const agents = [
      { name: "bank", endpoint: `${bank.url}/`, dialect: "a2a-0.3", skills: [{ id: "pay", approval: "always" }] }
    ]
    const asked = { question: "?", agents, preferences: { on_disconnect: "continue" } }
    yield* Effect.forkChild(Effect.ignore(post(`${one.url}/plan`, asked, staff)))
    const { text } = yield* Effect.repeat(send(`${one.url}/approvals`, { headers: staff }), {
      until: ({ text }) => text.includes("task_id"),
      schedule: Schedule.spaced("20 millis")
    })
    const [, plan = ""] = /"plan_id":"([^"]+)"/.exec(text) ?? []
    const [, task = ""] = /"task_id":"([^"]+)"/.exec(text) ?? []
    yield* Scope.close(first, Exit.void)

    const { url } = yield* start(script, settings)
    yield* post(`${url}/plans/${plan}/approvals/${task}`, { decision: "approve" }, noMore)
    const { body } = yield* Effect.repeat(send(`${url}/plans/${plan}`, { headers: noMore }), {
      until: ({ body }) => body["state"] === "completed" || body["state"] === "failed",
      schedule: Schedule.spaced("20 millis")
    })
    assert.strictEqual(body["state"], "completed", JSON.stringify(body))
    const paid = Effect.map(bank.requests.all, (all) => all.filter(({ body }) => body.includes("message/")))
    assert.lengthOf(yield* paid, 1, JSON.stringify(body["final"]))
    // A plan that is asked without the group may not use the tool.
    yield* post(`${url}/plan`, asked, noMore)
    assert.lengthOf(yield* paid, 1)
  }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
)

it.live("a schedule fires by the groups that its caller had when it was made, and shows nothing of them", () =>
  Effect.gen(function* () {
    const key = yield* newKey("one")
    const provider = yield* serve([key])
    const folder = yield* folderOf({
      "gateway.json": JSON.stringify({
        auth: { jwt: [{ name: "corp", issuer: provider.issuer, audience, groups: { claim: "groups" } }] },
        presets: { books: { instructions: "Keep the books." } },
        permissions: { "*": { presets: { deny: ["*"] } }, "group:staff": { presets: { allow: ["books"] } } }
      })
    })
    const { url } = yield* start(() => [say("kept")], { BOWLINE_CONFIG: join(folder, "gateway.json") })
    const claims = { iss: provider.issuer, aud: audience, sub: "alice", exp: Math.floor(Date.now() / 1_000) + 600 }
    const staff = { authorization: `Bearer ${yield* sign(key, { ...claims, groups: ["staff"] })}` }
    const noMore = { authorization: `Bearer ${yield* sign(key, claims)}` }
    const when = { every_ms: 3_600_000 }
    const made = yield* post(
      `${url}/schedules`,
      { name: "nightly", when, plan: { question: "?", preset: "books" } },
      staff
    )
    assert.strictEqual(made.status, 201, made.text)
    assert.notInclude(made.text, "staff")
    const id = String(made.body["schedule_id"])
    for (const path of ["/schedules", `/schedules/${id}`]) {
      assert.notInclude((yield* send(url + path, { headers: noMore })).text, "staff", path)
    }
    const fired = yield* post(`${url}/schedules/${id}/fire`, {}, noMore)
    assert.deepInclude(fired.body, { state: "completed" }, fired.text)
    const mine = yield* post(`${url}/plan`, { question: "?", preset: "books" }, noMore)
    assert.strictEqual(mine.status, 400)
  }).pipe(Effect.scoped)
)
