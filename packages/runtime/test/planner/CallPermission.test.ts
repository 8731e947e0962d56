import { urlsOf } from "@bowline/domain/peer/Agent"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, type seen, single } from "@bowline/testing/unstable/TestKit"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { allowsTool, everything, type Permission, Permissions } from "../../src/config/Permissions.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { Plans } from "../../src/plan/Plans.ts"
import * as McpTools from "../../src/tool/McpTools.ts"
import * as ToolName from "../../src/tool/ToolName.ts"
import { bob } from "../plan/Bob.ts"
import { askAndKill, mortal, peer, replayed } from "../plan/Mortal.ts"

const agents = [{ ...bob, skills: [{ id: "pay" }, { id: "ask" }] }]
const needsApproval = [{ id: "pay", approval: "always" }, { id: "ask" }]
const asksBoth = [callTool("bob_pay", { input: "7" }), callTool("bob_ask", { input: "hi" })]

/** A process where callers have this permission. */
const process = (options: Parameters<typeof mortal>[0], permission: Partial<Permission> = {}) =>
  Effect.provideService(mortal(options), Permissions, { forCaller: () => ({ ...everything, ...permission }) })

const noPay: Partial<Permission> = { tool: (name) => name !== "bob_pay" }
const noBob: Partial<Permission> = { host: (host) => host !== "bob.test" }

/** How the only call of a tool has ended. */
const endOf = (events: ReturnType<typeof seen>, tool: string) => {
  const started = all(events, "task.started").find((task) => task.tool === tool)
  const { error, state } = all(events, "task.finished").find((end) => end.task_id === started?.task_id) ?? assert.fail()
  return { error, state }
}

describe("a plan whose next process has other permissions", () => {
  it.effect("does not continue a call that its caller may not make any more, and has it cancelled", () => {
    const [before, behind] = [peer(Effect.never), peer()]
    return Effect.gen(function* () {
      const first = yield* process({ script: [asksBoth], peers: before.peers })
      const { plan_id } = yield* askAndKill(first, { agents })
      const second = yield* process({ script: [[say("ok")]], peers: behind.peers }, noPay)
      const events = yield* replayed(second, plan_id)
      assert.deepInclude(endOf(events, "bob_ask"), { state: "completed" })
      const message =
        "anonymous may not use bob_pay any more. The call was begun before, and is not continued: whether it had an effect is unknown."
      assert.deepStrictEqual(endOf(events, "bob_pay"), { state: "rejected", error: { code: "rejected", message } })
      assert.lengthOf(all(events, "task.started"), 2)
      assert.deepStrictEqual(
        behind.calls.map(({ skill }) => skill.id),
        ["ask"]
      )
      assert.lengthOf(behind.cancelled, 1)
      assert.strictEqual(single(events, "final").text, "ok")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("never speaks to a host that its caller may not use any more", () => {
    const [before, behind] = [peer(Effect.never), peer()]
    const spoken: Array<string> = []
    const discover = () => Effect.sync(() => (spoken.push("card"), { skills: [], did: null }))
    return Effect.gen(function* () {
      const first = yield* process({ script: [asksBoth], peers: before.peers })
      const { plan_id } = yield* askAndKill(first, {
        agents: [...agents, { name: "eve", endpoint: "http://bob.test/eve" }]
      })
      const second = yield* process({ script: [[say("ok")]], peers: { ...behind.peers, discover } }, noBob)
      const events = yield* replayed(second, plan_id)
      for (const { state } of all(events, "task.finished")) assert.strictEqual(state, "rejected")
      assert.deepStrictEqual([behind.calls, behind.cancelled, spoken], [[], [], []])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("refuses a call that no process has made yet, instead of waiting for its approval", () => {
    const [before, behind] = [peer(), peer()]
    return Effect.gen(function* () {
      for (const permission of [noPay, noBob]) {
        const first = yield* process({ script: [asksBoth], peers: before.peers })
        const { plan_id } = yield* askAndKill(first, { agents: [{ ...bob, skills: needsApproval }] })
        const second = yield* process({ script: [[say("ok")]], peers: behind.peers }, permission)
        const events = yield* replayed(second, plan_id)
        const message = "The call was not made: anonymous may not use bob_pay any more."
        assert.deepStrictEqual(endOf(events, "bob_pay"), { state: "rejected", error: { code: "rejected", message } })
        assert.lengthOf(all(events, "task.started"), 2)
      }
      assert.deepStrictEqual(behind.calls, [])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })
})

describe("permissions that change while a plan runs", () => {
  it.effect("refuse a call that was offered before, also one that has waited for its approval", () => {
    const { calls, peers } = peer()
    let permission = everything
    return Effect.gen(function* () {
      const { frames, plan_id } = yield* post({ question: "?", agents: [{ ...bob, skills: needsApproval }] })
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* pass("1 second")
      const plans = yield* Plans
      const [approval] = (yield* plans.approvals(anonymous, { limit: 10 })).items
      permission = { ...everything, ...noPay }
      const task_id = approval?.task_id ?? assert.fail()
      yield* plans.decide({ caller: anonymous, isAdmin: false }, { plan_id, task_id }, { decision: "approve" })
      const events = yield* Fiber.join(reader)
      // The second step asks for it again: no approval is requested for what is not allowed.
      assert.lengthOf(all(events, "approval.requested"), 1)
      assert.deepStrictEqual(
        all(events, "task.finished").map(({ state }) => state),
        ["completed", "rejected", "rejected"]
      )
      assert.deepStrictEqual(
        calls.map(({ skill }) => skill.id),
        ["ask"]
      )
      const { asked } = yield* ScriptedProvider
      assert.lengthOf(yield* asked.all, 3)
    }).pipe(
      Effect.provide(
        Layer.provide(
          layer({ script: [asksBoth, [callTool("bob_pay", { input: "8" })], [say("ok")]], peers }),
          Layer.succeed(Permissions, { forCaller: () => permission })
        )
      ),
      Effect.scoped
    )
  })

  it("cover tools whose names end in a hash, by their plain names, too", () => {
    for (const agent of ["files.x", "f".repeat(60)]) {
      const tool = { name: ToolName.forSkill(agent, "delete"), agent, skill: "delete" }
      assert.notMatch(tool.name, /_delete$/)
      assert.isFalse(allowsTool({ ...everything, tool: (name) => !name.endsWith("_delete") }, tool))
      assert.isFalse(allowsTool({ ...everything, tool: (name) => name.endsWith("_delete") }, tool))
      assert.isTrue(allowsTool(everything, tool))
    }
  })

  it("cover the hosts of MCP servers, and those that their tokens come from", () => {
    const connection = { tools: Effect.succeed([]), hasChanged: Effect.succeed(false), call: () => Effect.never }
    const server = { name: "files", url: "https://[::1]:8443/mcp", auth: { type: "none" } } as const
    const trust = { digest: "sha256:0", known: null, isChanged: false }
    const given = { answers: false, check: () => Effect.undefined }
    const listed = { name: "read", description: null, inputSchema: {}, outputSchema: null, isDestructive: false }
    const tool = McpTools.fromTool(server, [server.url], connection, listed, trust, given)
    assert.isTrue(allowsTool({ ...everything, host: (host) => host === "::1" }, tool))
    assert.isFalse(allowsTool({ ...everything, host: () => false }, tool))
    const token_url = "https://login.example/token"
    const auth = { type: "oauth2_client_credentials", token_url, client_id: "", client_secret_env_var: "" } as const
    const secured = McpTools.fromTool(server, urlsOf(server.url, auth), connection, listed, trust, given)
    assert.isFalse(allowsTool({ ...everything, host: (host) => host === "::1" }, secured))
  })
})
