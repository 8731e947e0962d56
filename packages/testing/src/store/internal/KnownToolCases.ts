import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Decision } from "@bowline/domain/plan/Approval"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { InboxStore, knownFor } from "@bowline/runtime/unstable/store/InboxStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Duration, Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

/** The id of a tool that no other test has. */
const newTool = Given.newTask

/** By which digests the owner knows these tools, of which the first plan to meet them says that. */
const meet = Effect.fnUntraced(function* (
  owner: CallerName,
  digests: Readonly<Record<string, string>>,
  now: string = Given.at
) {
  const known = yield* (yield* InboxStore).meetTools(owner, new Map(Object.entries(digests)), now)
  return Object.fromEntries(known)
})

/** Decides about a call of a tool whose digest is a new one. */
const decide = Effect.fnUntraced(function* (
  owner: CallerName,
  known_tool: string | null,
  tool_digest: string,
  decisions: ReadonlyArray<Decision["decision"]>
) {
  const store = yield* InboxStore
  const held = yield* Given.createHeld({ owner })
  const task_id = yield* Given.newTask
  const { plan_id } = held.plan
  const why = "description_changed" as const
  const request = Given.waitOpened(task_id, { why, tool_digest, known_tool })
  yield* Given.write(held, [request], [Given.row(2, "approval.requested")])
  for (const decision of decisions) {
    const accepting = yield* Given.accepting(plan_id, { type: "decision", task_id, decision })
    yield* Effect.catchTag(store.accept(accepting), "EntryRefused", () => Effect.void)
  }
  return held.plan.plan_id
})

const atEnd = Date.parse(Given.at) + Duration.toMillis(knownFor)

const sweepAll = Effect.fnUntraced(function* (now: number) {
  while (yield* (yield* SessionStore).sweep(fromMillis(now)));
})

export const knownToolCases: ReadonlyArray<StoreCase> = [
  {
    title: "knows a tool by the digest that it was first met with, for each caller",
    test: Effect.gen(function* () {
      const [ann, bob] = [yield* Given.newOwner, yield* Given.newOwner]
      const [one, two] = [yield* newTool, yield* newTool]
      assert.deepEqual(yield* meet(ann, {}), {})
      assert.deepEqual(yield* meet(ann, { [one]: "a" }), { [one]: "a" })
      assert.deepEqual(yield* meet(ann, { [one]: "b", [two]: "c" }), { [one]: "a", [two]: "c" })
      assert.deepEqual(yield* meet(bob, { [one]: "b" }), { [one]: "b" })
      assert.deepEqual(yield* meet(ann, { [one]: "b" }), { [one]: "a" })
    })
  },
  {
    title: "knows a tool that several plans meet at once by one digest",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const [one, two] = [yield* newTool, yield* newTool]
      const digests = Array.from({ length: 8 }, (_, at) => `${at}`)
      const met = yield* Effect.forEach(
        digests,
        (digest, at) => meet(owner, at % 2 === 0 ? { [one]: digest, [two]: digest } : { [two]: digest, [one]: digest }),
        { concurrency: "unbounded" }
      )
      const standing = yield* meet(owner, { [one]: "later", [two]: "later" })
      for (const each of met) assert.deepEqual(each, standing)
    })
  },
  {
    title: "knows a changed tool by its new digest once a call of it is approved, and not where it is rejected",
    test: Effect.gen(function* () {
      const [ann, bob] = [yield* Given.newOwner, yield* Given.newOwner]
      const tool = yield* newTool
      for (const owner of [ann, bob]) yield* meet(owner, { [tool]: "a" })
      yield* decide(ann, tool, "b", [])
      yield* decide(ann, tool, "b", ["reject", "approve"])
      assert.deepEqual(yield* meet(ann, { [tool]: "b" }), { [tool]: "a" })
      yield* decide(ann, tool, "b", ["approve", "reject"])
      assert.deepEqual(yield* meet(ann, { [tool]: "a" }), { [tool]: "b" })
      assert.deepEqual(yield* meet(bob, { [tool]: "b" }), { [tool]: "a" })
    })
  },
  {
    title: "tells the digest that a decision is about, and makes none known that the request pins",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const tool = yield* newTool
      yield* meet(owner, { [tool]: "a" })
      const plan_id = yield* decide(owner, null, "b", ["approve"])
      const [content] = yield* (yield* InboxStore).read([{ plan_id, seen: 0 }])
      assert.equal(content?.settlements[0]?.tool_digest, "b")
      assert.deepEqual(yield* meet(owner, { [tool]: "b" }), { [tool]: "a" })
    })
  },
  {
    title: "forgets a tool that no plan has met for 90 days, and none before",
    test: Effect.gen(function* () {
      const owner = yield* Given.newOwner
      const [left, met] = [yield* newTool, yield* newTool]
      yield* meet(owner, { [left]: "a", [met]: "a" })
      // Within a day nothing is written.
      yield* meet(owner, { [left]: "b" }, fromMillis(Date.parse(Given.at) - 1))
      yield* meet(owner, { [met]: "b" }, fromMillis(atEnd - 1))
      yield* sweepAll(atEnd - 1)
      assert.deepEqual(yield* meet(owner, { [left]: "b" }, Given.at), { [left]: "a" })
      yield* sweepAll(atEnd)
      assert.deepEqual(yield* meet(owner, { [left]: "b", [met]: "b" }), { [left]: "b", [met]: "a" })
    })
  }
]
