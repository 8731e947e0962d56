import { completes, produces } from "@bowline/testing/peer/Act"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule, Stream } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { ask } from "../plan/GatewayProcess.ts"
import { post, send, start, startOn, stores } from "./RunningGateway.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const [ann, bob, root] = [by("ann"), by("bob"), by("root")]

const script: Parameters<typeof start>[0] = (asked) =>
  results(asked).length === 0 ? [callTool("rigger_pay", { input: "7" })] : [say(results(asked).join())]

const agentAt = (url: string) => ({
  name: "rigger",
  endpoint: `${url}/`,
  dialect: "a2a-0.3",
  skills: [{ id: "pay", approval: "always" }]
})

interface Shown {
  readonly plan_id: string
  readonly task_id: string
  readonly expires_at: string
}

/** What waits, once something does. */
const waiting = (url: string, headers: Readonly<Record<string, string>>, query = "") =>
  send(`${url}/approvals${query}`, { headers }).pipe(
    Effect.map(({ body }) => body["approvals"] as ReadonlyArray<Shown>),
    Effect.repeat({ until: (approvals) => approvals.length > 0, schedule: Schedule.spaced("20 millis") }),
    Effect.map(([first]) => first ?? assert.fail())
  )

const pathOf = ({ plan_id, task_id }: Shown) => `/plans/${plan_id}/approvals/${task_id}`

describe("approvals", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`are shown to their caller and to admins, who decide, once (${name})`, () =>
      Effect.gen(function* () {
        const { url: peer } = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
        const { url } = yield* startOn(store)(script, callers)
        const asking = yield* Effect.forkChild(
          post(`${url}/plan`, { question: "?", agents: [agentAt(peer)], preferences: { timeout_ms: 60_000 } }, ann)
        )
        const approval = yield* waiting(url, ann)
        const plan = (yield* send(`${url}/plans/${approval.plan_id}`, { headers: ann })).body
        const { created_at, session_id } = plan
        const { expires_at } = approval
        assert.isAtLeast(Date.parse(expires_at), Date.parse(String(created_at)) + 86_400_000)
        assert.deepStrictEqual([plan["state"], plan["stage"]], ["running", "approval"])
        const { plan_id, task_id } = approval
        const own = { plan_id, session_id, task_id, expires_at }
        const shown = {
          ...own,
          tool: "rigger_pay",
          agent: "rigger",
          input: { input: "7" },
          why: "skill",
          caller: "ann"
        }
        assert.deepStrictEqual(yield* waiting(url, root, "?caller=ann"), shown)
        const page = yield* send(`${url}/approvals?limit=1`, { headers: ann })
        assert.deepStrictEqual(page.body, { approvals: [shown], next_cursor: null })

        const empty = { approvals: [], next_cursor: null }
        assert.deepStrictEqual((yield* send(`${url}/approvals`, { headers: bob })).body, empty)
        assert.deepStrictEqual((yield* send(`${url}/approvals`, { headers: root })).body, empty)
        const refused = yield* send(`${url}/approvals?caller=ann`, { headers: bob })
        assert.deepStrictEqual([refused.status, refused.body["code"]], [403, "forbidden"])
        assert.strictEqual((yield* send(`${url}/approvals?limit=0`, { headers: ann })).status, 400)

        const path = `${url}${pathOf(approval)}`
        for (const [body, at] of [
          [{}, "decision"],
          [{ decision: "maybe" }, "decision"],
          [{ decision: "approve", note: "x".repeat(4_097) }, "note"],
          [{ decision: "approve", because: "" }, "because"]
        ] as const) {
          const wrong = yield* post(path, body, ann)
          const [issue] = wrong.body["issues"] as ReadonlyArray<{ readonly path: string }>
          assert.deepStrictEqual([wrong.status, issue?.path], [400, at])
        }
        const approve = { decision: "approve", note: "Go" }
        for (const wrong of [path.replace(task_id, "x"), path.replace(plan_id, "x"), `${path.slice(0, -1)}_`]) {
          assert.strictEqual((yield* post(wrong, approve, ann)).body["code"], "not_found", wrong)
        }
        assert.strictEqual((yield* post(path, approve, bob)).body["code"], "not_found")

        const decided = { plan_id, task_id, ...approve, by: "root" }
        const first = yield* post(path, approve, root)
        assert.deepStrictEqual([first.status, first.body], [200, decided])
        const again = yield* post(path, { decision: "approve" }, ann)
        assert.deepStrictEqual([again.status, again.body], [200, decided])
        const other = yield* post(path, { decision: "reject" }, ann)
        assert.deepInclude(other.body, {
          status: 409,
          code: "approval_conflict",
          retryable: false,
          detail: "root has approved the call already"
        })
        assert.strictEqual((yield* Fiber.join(asking)).body["state"], "completed")
        assert.deepStrictEqual((yield* post(path, { decision: "approve" }, ann)).status, 200)
        assert.deepStrictEqual((yield* send(`${url}/approvals`, { headers: ann })).body, empty)
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
    )
  }

  it.live("are needed for the tools that the configuration names, whatever the request says", () =>
    Effect.gen(function* () {
      const { url: peer } = yield* ScriptedPeer.serve({ acts: [completes()] })
      const folder = yield* folderOf({
        "bowline.yaml": "tools: { sensitive: ['*_pay'], needs_approval: ['rigger_b*', 'rigger_c*'] }"
      })
      const call = ({ messages }: { readonly messages: ReadonlyArray<unknown> }) =>
        messages.length > 1
          ? [say("done")]
          : ["pay", "buy", "ask"].map((skill) => callTool(`rigger_${skill}`, { input: "" }))
      const { url } = yield* start(call, { BOWLINE_CONFIG: join(folder, "bowline.yaml") })
      const skills = ["pay", "buy", "ask"].map((id) => ({ id }))
      const why = Effect.fnUntraced(function* (approval: string) {
        const body = { question: "?", agents: [{ ...agentAt(peer), skills }], preferences: { approval } }
        // Each of the calls waits, or is over.
        const answered = yield* ask(url, body).pipe(
          Stream.filter(({ event }) => event === "approval.requested" || event === "task.finished"),
          Stream.take(skills.length),
          Stream.runCollect
        )
        return answered.flatMap(({ data, event }) =>
          event === "approval.requested" ? [[data["tool"], data["why"]]] : []
        )
      })
      assert.deepStrictEqual(yield* why("never"), [["rigger_buy", "always"]])
      assert.deepStrictEqual(yield* why("sensitive"), [
        ["rigger_pay", "sensitive"],
        ["rigger_buy", "always"]
      ])
      assert.deepStrictEqual(yield* why("always"), [
        ["rigger_pay", "always"],
        ["rigger_buy", "always"],
        ["rigger_ask", "always"]
      ])
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )
})
