import { CallerName } from "@bowline/domain/caller/CallerName"
import { assert, describe, it } from "@effect/vitest"
import { everything, narrow, nothing, type Permission } from "../../src/config/Permissions.ts"
import { allowed, find, noPreset, permissionOf, type Preset } from "../../src/config/Presets.ts"

const named = (name: string, permission: Permission = everything): Preset => ({ ...noPreset, name, permission })
const presets = new Map([named("default"), named("knots"), named("sky")].map((preset) => [preset.name, preset]))
const may = (...names: ReadonlyArray<string>): Permission => ({
  ...everything,
  preset: (name) => names.includes(name)
})
const ann = CallerName.make("ann")

describe("a preset", () => {
  it("is found by its name, and does not exist for a caller that may not use it", () => {
    assert.strictEqual(find(presets, everything, "sky"), presets.get("sky"))
    assert.isUndefined(find(presets, everything, "sea"))
    assert.isUndefined(find(presets, may("sky"), "knots"))
    assert.isUndefined(find(presets, may("sky"), "default"))
    assert.deepStrictEqual(
      allowed(presets, may("sky", "sea", "default")).map(({ name }) => name),
      ["default", "sky"]
    )
  })

  it("is default for a request that names none, or nothing if its caller may not use that", () => {
    assert.strictEqual(find(presets, everything, undefined), presets.get("default"))
    assert.strictEqual(find(presets, may("sky"), undefined), noPreset)
    assert.strictEqual(find(new Map(), everything, undefined), noPreset)
  })
})

describe("what a plan may use", () => {
  const odd: Permission = { ...everything, tool: (name) => name.length % 2 === 1 }
  const short: Permission = { ...nothing, tool: (name) => name.length < 4, recipe: () => true }

  it("is what its caller and its preset allow", () => {
    for (const both of [narrow(odd, short), narrow(short, odd)]) {
      assert.deepStrictEqual(["a", "ab", "abc", "abcde"].filter(both.tool), ["a", "abc"])
      assert.deepStrictEqual([both.recipe("x"), both.host("x"), both.model("x")], [true, false, false])
    }
    const plan = { caller: ann, preset: named("knots", short), request: {} }
    const { tool } = permissionOf({ forCaller: () => odd }, plan)
    assert.deepStrictEqual(["a", "ab", "abc", "abcde"].filter(tool), ["a", "abc"])
  })

  it("is nothing once its caller may not use its preset any more", () => {
    let permission = may("knots")
    const now = (preset: Preset) =>
      permissionOf({ forCaller: () => permission }, { caller: ann, preset, request: {} }).tool("x")
    assert.isTrue(now(named("knots")))
    permission = may("sky")
    assert.isFalse(now(named("knots")))
    assert.isTrue(now(noPreset))
  })
})
