import { callTool, say } from "@bowline/testing/provider/Turn"
import { type AppWorld, type Scenario, simulate } from "@bowline/testing/simulation/Simulation"
import { tellFailure } from "@bowline/testing/simulation/Story"
import assert from "node:assert/strict"
import * as ShopTools from "./ShopTools.ts"

const seeds = 60

/** Stands in for the model: it looks the order up, pays it, and says so. What it got to read decides what it does next. */
const script: NonNullable<AppWorld["script"]> = ({ messages }) => {
  const asked = messages.findLastIndex((message) => message.role === "user" && message.text.includes("FACT-"))
  const question = messages[asked]
  const order = question?.role === "user" ? (/FACT-(\S+)/.exec(question.text)?.[1] ?? "") : ""
  const results = messages.slice(asked).flatMap((message) => (message.role === "tool" ? [message.content] : []))
  if (results.some((result) => result.includes("paid"))) return [say(`${order} is paid.`)]
  if (results.some((result) => result.includes("euros"))) {
    return [say("I pay it. "), callTool("pay", { order, euros: 30 })]
  }
  return results.length > 1 ? [say("The shop is closed.")] : [callTool("find_order", { order })]
}

/** A shop of its own for each run, and its rule. */
const shop = (mayRepeat: boolean) => (): AppWorld => {
  const payments: Array<string> = []
  return {
    script,
    tools: ShopTools.layer({ mayRepeat, onPaid: (order) => void payments.push(order) }),
    questions: ["Pay my order."],
    rules: {
      "nothing is paid twice": () =>
        payments.filter((order, index) => payments.indexOf(order) < index).map((order) => `${order} is paid again`)
    }
  }
}
const careful = shop(false)
const careless = shop(true)

// The context window of a real model: no history is compacted.
const config = { contextWindow: 128_000 }

const began = performance.now()
for (let seed = 1; seed <= seeds; seed++) {
  const options = { seed, world: careful, config }
  const run = await simulate(options)
  if (run.violations.length > 0) assert.fail((await tellFailure(run, options)).join("\n"))
}
console.log(`${seeds} seeds in ${((performance.now() - began) / 1_000).toFixed(1)} s: nothing is paid twice`)

/** One plan, and a process that is killed so many milliseconds after the beginning. Another one takes the plan over. */
const killedAt = (at: number): Scenario => ({
  seed: 1,
  replicas: 2,
  plans: [
    {
      name: "p0",
      session: "s0",
      at: 1,
      replica: 0,
      question: "Pay my order.",
      onDisconnect: "continue",
      onBusy: "queue",
      hasKey: true,
      timeoutMs: 60_000,
      readMs: 0,
      ballast: 0,
      steps: [],
      acts: []
    }
  ],
  faults: [{ _tag: "Kill", at, replica: 0, tasks: 0, backMs: undefined }]
})

// A shop that says that a payment may be repeated. A process that dies just behind it has it paid again.
const found: Array<string> = []
for (let at = 500; found.length === 0 && at < 10_000; at += 200) {
  const options = { seed: 1, world: careless, config, scenario: killedAt(at) }
  const run = await simulate(options)
  if (run.violations.length > 0) found.push(...(await tellFailure(run, options, 20)))
}
const end = found.slice(-4).join("\n")
assert.match(end, /nothing is paid twice: p0 is paid again\nThe faults that it takes:\n.*"Kill"/)
console.log(`Found in a shop whose payments may be repeated:\n${end}`)
