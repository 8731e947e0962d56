import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { parse } from "../../src/prompt/RecipeText.ts"

const head = "name: refund\ndescription: Gives money back"

describe("a recipe", () => {
  it.each([
    ["with the line ends of Windows", `---\r\n${head.replace("\n", "\r\n")}\r\n---\r\n\r\nDo it.\r\n`],
    ["with a rule in its body", `---\n${head}\n---\nDo it.`],
    ["with a key of somebody else's", `---\n${head}\nlicense: MIT\n---\nDo it.`],
    ["with a description in several lines", `---\nname: refund\ndescription: |\n  Gives\n  money back\n---\nDo it.`]
  ])("is read %s", (_, text) => {
    const recipe = { name: "refund", description: "Gives money back", body: "Do it." }
    assert.deepStrictEqual(parse(text), Result.succeed(recipe))
  })

  it("may have a rule in its body", () => {
    assert.strictEqual(Result.getOrThrow(parse(`---\n${head}\n---\n\na\n---\nb\n`)).body, "a\n---\nb")
  })

  const name = "Expected name: 1..64 of a-z 0-9 _ -, of which the first is a letter or a digit"
  const description = "Expected description: 1..1024 characters that say what the recipe is for"

  it.each([
    ["without a front matter", "# Refund", "Expected a front matter between two lines ---, with name and description"],
    [
      "with an open front matter",
      `---\n${head}`,
      "Expected a front matter between two lines ---, with name and description"
    ],
    ["without a body", `---\n${head}\n---\n \n`, "Expected a text after the front matter"],
    [
      "with a front matter that is not YAML",
      "---\nname: [\n---\nx",
      "Its front matter is not YAML: Expected ',' at flow offset 2"
    ],
    ["with an empty front matter", "---\n---\nx", "Expected name and description in the front matter"],
    ["without a name and a description", "---\ntitle: Refund\n---\nx", `${name}. ${description}`],
    ["with a list as front matter", "---\n- name\n---\nx", "Expected name and description in the front matter"],
    ["with a blank description", "---\nname: a\ndescription: ' '\n---\nx", description],
    ["with a long description", `---\nname: a\ndescription: ${"x".repeat(1_025)}\n---\nx`, description],
    ...["../up", "Refund", "a b", "", "x".repeat(65), "_a", "a/b"].map((bad) => [
      `with the name ${JSON.stringify(bad)}`,
      `---\nname: ${JSON.stringify(bad)}\ndescription: x\n---\nx`,
      name
    ]),
    ["with a number as name", "---\nname: 1\ndescription: x\n---\nx", name]
  ])("is refused %s, with what to change", (_, text, reason) => {
    assert.deepStrictEqual(parse(text), Result.fail(reason))
  })
})
