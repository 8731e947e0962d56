import type { ApprovalPreference } from "@bowline/domain/plan/Approval"
import { assert, describe, it } from "@effect/vitest"
import * as ApprovalRule from "../../src/planner/ApprovalRule.ts"
import { forSkill } from "../../src/tool/ToolName.ts"
import type { ToolTrust } from "../../src/tool/Tool.ts"

const preferences: ReadonlyArray<ApprovalPreference> = ["never", "sensitive", "always"]

/** The reasons with each preference of a request. */
const reasons = (tool: {
  readonly name: string
  readonly agent?: string
  readonly skill?: string
  readonly approval?: "never" | "always"
  readonly approvalReason?: "sensitive"
  readonly trust?: ToolTrust
}) =>
  preferences.map((preference) =>
    ApprovalRule.reasonOf({ approval: undefined, agent: null, skill: null, ...tool }, preference, {
      isAlways: (name) => name.startsWith("bank_"),
      isSensitive: (name) => name.endsWith("_pay")
    })
  )

describe("the reason why a call needs an approval", () => {
  it("is the request's for a plain tool, and the configuration's for a sensitive one", () => {
    assert.deepStrictEqual(reasons({ name: "bob_ask" }), [undefined, undefined, "always"])
    assert.deepStrictEqual(reasons({ name: "bob_pay" }), [undefined, "sensitive", "always"])
  })

  it("is found by the plain name, too, where the tool's own name ends in a hash", () => {
    const [pay, bank] = [
      { agent: "bob.x", skill: "pay" },
      { agent: `bank_${"x".repeat(60)}`, skill: "ask" }
    ].map((names) => ({ ...names, name: forSkill(names.agent, names.skill) }))
    assert.deepStrictEqual(pay && reasons(pay), [undefined, "sensitive", "always"])
    assert.deepStrictEqual(bank && reasons(bank), ["always", "always", "always"])
  })

  it("is that of a sensitive tool where its MCP server says that it may destroy something", () => {
    const tool = { name: "bob_ask", approvalReason: "sensitive" } as const
    assert.deepStrictEqual(reasons(tool), [undefined, "sensitive", "always"])
  })

  it("is that a tool has changed, before all others, where anybody is asked at all", () => {
    const trust = { digest: "b", known: "tool", isChanged: true }
    const changed = "description_changed"
    assert.deepStrictEqual(reasons({ name: "bob_ask", trust }), [undefined, changed, changed])
    assert.deepStrictEqual(reasons({ name: "bob_pay", trust }), [undefined, changed, changed])
    assert.deepStrictEqual(reasons({ name: "bob_ask", approval: "always", trust }), [changed, changed, changed])
    assert.deepStrictEqual(reasons({ name: "bank_ask", approval: "never", trust }), [changed, changed, changed])
    assert.deepStrictEqual(reasons({ name: "bob_pay", approval: "never", trust }), [undefined, undefined, undefined])
    assert.deepStrictEqual(reasons({ name: "bob_ask", trust: { ...trust, isChanged: false } }), [
      undefined,
      undefined,
      "always"
    ])
  })

  it("is a skill's own, whatever the request says of all its calls", () => {
    assert.deepStrictEqual(reasons({ name: "bob_pay", approval: "never" }), [undefined, undefined, undefined])
    assert.deepStrictEqual(reasons({ name: "bob_ask", approval: "always" }), ["skill", "skill", "skill"])
  })

  it("is the configuration's where it says always, whatever request and skill say", () => {
    assert.deepStrictEqual(reasons({ name: "bank_pay", approval: "never" }), ["always", "always", "always"])
    assert.deepStrictEqual(reasons({ name: "bank_ask", approval: "always" }), ["always", "always", "always"])
  })
})
