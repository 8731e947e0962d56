import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../src/config/setting/ConfigProblem.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, type RunningGateway, start, stores, startOn } from "./RunningGateway.ts"

const refund = "---\nname: refund\ndescription: Gives money back\n---\nFind the order.\n"

const asking = [callTool("load_recipe", { name: "refund" })]

/** The system prompt that the provider got last. */
const systemOf = ({ provider }: RunningGateway) =>
  Effect.map(provider.requests.all, (requests) => {
    const { messages } = JSON.parse(requests.at(-1)?.body ?? "{}") as {
      readonly messages: ReadonlyArray<{ readonly role: string; readonly content: string }>
    }
    return messages.find(({ role }) => role === "system")?.content ?? ""
  })

const ask = Effect.fnUntraced(function* (gateway: RunningGateway) {
  const { text } = yield* post(`${gateway.url}/plan`, { question: "?" }, { accept: "text/event-stream" })
  return text
})

describe("recipes of a gateway", () => {
  it.live.each(Object.entries(stores))(
    "are listed for the model, which loads one when it needs it, on %s",
    ([, store]) =>
      Effect.gen(function* () {
        const folder = yield* folderOf({ "refund.md": refund })
        const gateway = yield* startOn(store)([asking, [say("done")]], { BOWLINE_RECIPES_DIR: folder })
        const text = yield* ask(gateway)
        const system = yield* systemOf(gateway)
        assert.include(system, "- refund: Gives money back")
        assert.notInclude(system, "Find the order")
        assert.match(text, /^event: task\.started\ndata: .*"tool":"load_recipe","kind":"recipe","agent":null/m)
        assert.match(text, /^event: task\.artifact\ndata: .*"content":"Find the order\.".*"truncated":false/m)
        assert.match(text, /^event: task\.finished\ndata: .*"state":"completed"/m)
        const [, second] = yield* gateway.provider.requests.all
        assert.match(second?.body ?? "", /"role":"tool",[^}]*"content":"Find the order\."/)
      }).pipe(Effect.scoped)
  )

  it.live("are those that its folder has when a plan begins", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "refund.md": refund })
      const gateway = yield* start(() => [say("done")], { BOWLINE_RECIPES_DIR: folder })
      const seen: Array<boolean> = []
      const changes = [refund, refund.replace("Gives", "Brings"), "broken", refund.replace("refund", "Bad name")]
      for (const text of changes) {
        writeFileSync(join(folder, "refund.md"), text)
        yield* ask(gateway)
        seen.push((yield* systemOf(gateway)).includes("- refund: Brings money back"))
      }
      assert.deepStrictEqual(seen, [false, true, true, true])
      rmSync(join(folder, "refund.md"))
      yield* ask(gateway)
      assert.notInclude(yield* systemOf(gateway), "refund")
    }).pipe(Effect.scoped)
  )

  it.live("keep their tool's name from the agents of a request", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const agents = [{ name: "load", endpoint: "http://127.0.0.1:9/", skills: [{ id: "recipe" }] }]
      const { body, status } = yield* post(`${url}/plan`, { question: "?", agents })
      assert.deepStrictEqual([status, body["code"]], [400, "invalid_request"])
      assert.match(JSON.stringify(body["issues"]), /agent load and the recipes would both be the tool load_recipe/)
    }).pipe(Effect.scoped)
  )
})

describe("the planner's instructions of a gateway", () => {
  it.live("are the first thing in the prompt, as its file has them when a plan begins", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "planner.md": "Be brief." })
      const path = join(folder, "planner.md")
      const gateway = yield* start(() => [say("done")], { BOWLINE_PLANNER_FILE: path })
      const begins: Array<string | undefined> = []
      for (const text of ["Be brief.", "Be kind.", " "]) {
        writeFileSync(path, text)
        yield* ask(gateway)
        begins.push((yield* systemOf(gateway)).split("\n")[0])
      }
      assert.deepStrictEqual(begins, ["Be brief.", "Be kind.", "Be kind."])
      assert.include(yield* systemOf(gateway), "data from outside")
    }).pipe(Effect.scoped)
  )

  it.live("are built in, unless a file is named", () =>
    Effect.gen(function* () {
      const gateway = yield* start([[say("done")]])
      yield* ask(gateway)
      assert.match(yield* systemOf(gateway), /^You are a planner\./)
    }).pipe(Effect.scoped)
  )
})

describe("a configuration that names texts", () => {
  const problemsOf = (environment: Readonly<Record<string, string>>) =>
    Effect.map(Effect.flip(fromEnvironment(environment, false)), ({ problems }) => problems.map(formatProblem))

  it.live("is wrong where they cannot be read", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({
        "empty.md": "",
        "gateway.yaml": "plans: { recipes_dir: nowhere, planner_file: . }"
      })
      assert.deepStrictEqual(
        yield* problemsOf({
          BOWLINE_RECIPES_DIR: join(folder, "none"),
          BOWLINE_PLANNER_FILE: join(folder, "empty.md")
        }),
        [
          "BOWLINE_RECIPES_DIR: Expected a folder that can be read. It does not exist",
          "BOWLINE_PLANNER_FILE: Expected a file with text. It is empty"
        ]
      )
      assert.deepStrictEqual(yield* problemsOf({ BOWLINE_CONFIG: join(folder, "gateway.yaml") }), [
        "gateway.yaml plans.recipes_dir: Expected a folder that can be read. It does not exist",
        "gateway.yaml plans.planner_file: Expected a file with text. It is not a file"
      ])
      assert.deepStrictEqual(yield* problemsOf({ BOWLINE_RECIPES_DIR: join(folder, "empty.md") }), [
        "BOWLINE_RECIPES_DIR: Expected a folder that can be read. It is not a folder"
      ])
    }).pipe(Effect.scoped)
  )

  it.live("is right with a recipe that cannot be used: the others can", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "refund.md": refund, "bad.md": "bad" })
      symlinkSync("nowhere", join(folder, "gone.md"))
      const gateway = yield* start([[say("done")]], { BOWLINE_RECIPES_DIR: folder })
      yield* ask(gateway)
      assert.include(yield* systemOf(gateway), "- refund: Gives money back")
    }).pipe(Effect.scoped)
  )
})
