import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { send, start } from "./RunningGateway.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const [ann, bob, root] = [by("ann"), by("bob"), by("root")]

describe("the console", () => {
  it.live("learns who looks at it, and what there is to show", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({
        "gateway.json": JSON.stringify({
          telemetry: { trace_url: "https://traces.test/{trace_id}?x={trace_id}" },
          presets: { knots: { agents: [{ name: "a", endpoint: "http://127.0.0.1:1/", skills: [{ id: "ask" }] }] } },
          permissions: { "*": {}, bob: { presets: { deny: ["*"] } } }
        })
      })
      const { url } = yield* start(() => [say("x")], { ...callers, BOWLINE_CONFIG: join(folder, "gateway.json") })
      const config = (headers: Readonly<Record<string, string>>) =>
        Effect.map(send(`${url}/console/config`, { headers }), ({ body }) => body)
      const { version } = yield* config(ann)
      assert.match(String(version), /^\d+\.\d+\.\d+/)
      const facts = { version, trace_url: "https://traces.test/{trace_id}?x={trace_id}", approvals: true }
      assert.deepStrictEqual(yield* config(ann), { ...facts, caller: "ann", admin: false, presets: true })
      assert.deepStrictEqual(yield* config(root), { ...facts, caller: "root", admin: true, presets: true })
      assert.deepStrictEqual(yield* config(bob), { ...facts, caller: "bob", admin: false, presets: false })
      assert.strictEqual((yield* send(`${url}/console/config`)).status, 401)
    }).pipe(Effect.scoped)
  )

  it.live("needs no key at an open gateway, and links to no trace that nobody keeps", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("x")])
      const { body } = yield* send(`${url}/console/config`)
      assert.deepInclude(body, { caller: "anonymous", admin: true, trace_url: null, presets: false })
    }).pipe(Effect.scoped)
  )
})
