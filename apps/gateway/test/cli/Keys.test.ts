import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { send, start } from "../http/RunningGateway.ts"
import { outputOf, outputOfProcess } from "./Bowline.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }

it.live("bowline keys makes a key, lists it, and revokes it", () =>
  Effect.gen(function* () {
    const { url } = yield* start(() => [say("x")], callers)
    const runAs =
      (key: string) =>
      (...args: ReadonlyArray<string>) =>
        outputOf(["keys", ...args], { BOWLINE_URL: url, BOWLINE_API_KEY: key })
    const run = runAs("key-of-root")
    const made = yield* run("add", "eve", "--admin", "--expires", "90d", "--note", "for\tCI")
    assert.strictEqual(made.code, 0, made.stderr)
    assert.match(made.stdout, /^bw_[A-Za-z0-9_-]{43}\n$/)
    const [, id = ""] = /^(key_\S+) is the id/.exec(made.stderr) ?? []
    const key = made.stdout.trim()
    const statusOf = Effect.map(
      send(`${url}/plans`, { headers: { authorization: `Bearer ${key}` } }),
      ({ status }) => status
    )
    assert.strictEqual(yield* statusOf, 200)
    const listed = yield* outputOfProcess(["keys", "list"], { BOWLINE_URL: url, BOWLINE_API_KEY: key })
    const [first, name, admin, , , , creator, note] = listed.stdout.trimEnd().split("\t")
    assert.deepStrictEqual([first, name, admin, creator, note], [id, "eve", "yes", "root", "for CI"])
    const { stdout } = yield* run("list", "--json")
    assert.deepInclude((JSON.parse(stdout) as { keys: ReadonlyArray<object> }).keys[0], { key_id: id, note: "for\tCI" })
    const revoked = yield* run("revoke", id, "--end-plans")
    assert.deepStrictEqual([revoked.code, revoked.stderr], [0, `${id} is revoked\n`])
    assert.strictEqual(yield* statusOf, 401)
    const twice = yield* run("revoke", id)
    assert.deepStrictEqual([twice.code, twice.stderr], [1, "not_found: There is no such key\n"])
    const wrong = yield* run("add", "corp:eve")
    assert.match(wrong.stderr, /^invalid_request: name: Expected a name .* without a colon/)
    const refused = yield* runAs("key-of-ann")("list")
    assert.match(refused.stderr, /^forbidden: /)
  }).pipe(Effect.scoped)
)
