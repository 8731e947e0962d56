import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import type { Asked, Script } from "@bowline/testing/unstable/provider/Script"
import { layer, post, readAll } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { countTokens } from "gpt-tokenizer/encoding/o200k_base"
import { LocalTools } from "../../src/tool/LocalTools.ts"
import { type Field, ToolSearch } from "../../src/tool/ToolSearch.ts"
import { tools } from "./catalog/Catalog.ts"
import { questions } from "./catalog/Questions.ts"

const print = (line: string) => process.stdout.write(`${line}\n`)

const fields: ReadonlyArray<readonly [string, ReadonlyArray<Field>]> = [
  ["names", ["name"]],
  ["names and descriptions", ["name", "description"]],
  ["names and names of arguments", ["name", "arguments"]],
  ["names, descriptions and names of arguments", ["name", "description", "arguments"]]
]
const places = [1, 3, 5, 10]

/** In how many of 100 questions the right tool is among the first so many. */
const recalls = (read: ReadonlyArray<Field>): ReadonlyArray<number> => {
  const search = new ToolSearch(tools, read)
  const found = questions.map(([asked, tool]) => search.find(asked, 10).findIndex(({ name }) => name === tool))
  return places.map((most) => (100 * found.filter((place) => place >= 0 && place < most).length) / questions.length)
}

const ms = (task: () => void): number => {
  const began = performance.now()
  task()
  return performance.now() - began
}

/** The middle one, and the largest. */
const spread = (times: ReadonlyArray<number>): string => {
  const sorted = times.toSorted((a, b) => a - b)
  return `${(sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(2)} ms, at most ${(sorted.at(-1) ?? 0).toFixed(2)} ms`
}

/** The tokens of what the model is told of tools and by the gateway. */
const tokensOf = ({ system, tools }: Asked): number => countTokens(JSON.stringify([system, tools]))

/** The prompts of a plan with all of the tools. */
const promptsOf = (script: Script, declareAtMost: number) =>
  Effect.gen(function* () {
    yield* readAll((yield* post({ question: "?" })).frames)
    return yield* (yield* ScriptedProvider).asked.all
  }).pipe(
    Effect.provide(Layer.provide(layer({ script, config: { declareAtMost } }), Layer.succeed(LocalTools, tools))),
    Effect.scoped
  )

const queries = ["mail", "issue", "pod", "flight", "invoice", "file"].map((query) => callTool("find_tools", { query }))

describe(`the search of ${tools.length} tools, measured`, () => {
  it("finds the right tool in 9 of 10 questions, and more with descriptions and arguments than by names alone", () => {
    const measured = fields.map(([what, read]) => [what, recalls(read)] as const)
    print(`\n${questions.length} questions: the right tool is the first, among the first 3, 5, and 10`)
    for (const [what, all] of measured) print(`${what}: ${all.map((share) => `${share.toFixed(1)} %`).join(", ")}`)
    const indexes = Array.from({ length: 20 }, () => ms(() => new ToolSearch(tools)))
    const search = new ToolSearch(tools)
    const searches = questions.map(([asked]) => ms(() => search.find(asked, 10)))
    print(`an index takes ${spread(indexes)}; a search ${spread(searches)}`)
    const last = (of: number) => measured.at(of)?.[1].at(-1) ?? 0
    assert.isAtLeast(last(-1), 90)
    assert.isAbove(last(-1), last(0))
  })

  it.effect("has at most 15 % of the tokens of a prompt that declares them all, behind six searches", () =>
    Effect.gen(function* () {
      const [whole] = yield* promptsOf([[say("ok")]], tools.length)
      const [first, later] = yield* promptsOf([queries, [say("ok")]], 64)
      if (whole === undefined || first === undefined || later === undefined) return assert.fail("nobody was asked")
      assert.lengthOf(whole.tools, tools.length)
      const all = tokensOf(whole)
      const share = (asked: Asked) => `${tokensOf(asked)} tokens, ${((100 * tokensOf(asked)) / all).toFixed(1)} %`
      print(
        `all declared: ${all} tokens; before a search: ${share(first)}; ${later.tools.length - 1} found: ${share(later)}`
      )
      assert.isAtMost(tokensOf(later) / all, 0.15)
    })
  )
})
