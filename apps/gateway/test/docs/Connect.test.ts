import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, start } from "../http/RunningGateway.ts"
import { blocks } from "./Blocks.ts"

it.live("the settings of another Bowline in docs/connect.md have it ask this one, with the key of a caller", () =>
  Effect.gen(function* () {
    const rains: Script = (asked) => [say(question(asked) === "Will it rain?" ? "It will rain." : "What?")]
    const inner = yield* start(rains, { BOWLINE_API_KEYS: "outer=<key>" })
    const settings =
      blocks.find(({ language, page, word }) => page === "docs/connect.md" && language === "json" && word !== "")
        ?.code ?? ""
    assert.include(settings, "http://127.0.0.1:3774")
    const folder = yield* folderOf({ "gateway.json": settings.replaceAll("http://127.0.0.1:3774", inner.url) })
    const environment = { BOWLINE_CONFIG: join(folder, "gateway.json"), INNER_KEY: "<key>" }
    const script = [[callTool("inner_plan", { input: "Will it rain?" })], [say("It will.")]]
    const { provider, url } = yield* start(script, environment)
    assert.deepNestedInclude((yield* post(`${url}/plan`, { question: "?" })).body, { "final.text": "It will." })
    assert.include((yield* provider.requests.all).at(-1)?.body ?? "", "It will rain.")
  })
)
