import { callTool, say } from "@bowline/testing/provider/Turn"
import { type AppWorld, simulate } from "@bowline/testing/simulation/Simulation"
import assert from "node:assert/strict"
import * as ShopTools from "./ShopTools.ts"

const seeds = 200

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

/** Runs a seed with a shop of its own, and gives what is wrong. */
const run = async (seed: number, shop: { readonly mayRepeat: boolean }) => {
  const payments: Array<string> = []
  const { violations } = await simulate({
    seed,
    world: {
      script,
      tools: ShopTools.layer({ ...shop, onPaid: (order) => void payments.push(order) }),
      questions: ["Pay my order."]
    },
    rules: {
      "nothing is paid twice": () =>
        payments.filter((order, index) => payments.indexOf(order) < index).map((order) => `${order} is paid again`)
    }
  })
  return violations.map(({ rule, what }) => `seed ${seed}, ${rule}: ${what}`)
}

const began = performance.now()
for (let seed = 1; seed <= seeds; seed++) assert.deepEqual(await run(seed, { mayRepeat: false }), [])
console.log(`${seeds} seeds in ${((performance.now() - began) / 1_000).toFixed(1)} s: nothing is paid twice`)

// A shop that says that a payment may be repeated. A process that dies behind it has it paid again, and a seed shows that.
const findBug = async (): Promise<string> => {
  for (let seed = 1; ; seed++) {
    const found = (await run(seed, { mayRepeat: true })).find((line) => line.includes("nothing is paid twice"))
    if (found !== undefined) return found
  }
}
console.log(`Found in the other shop: ${await findBug()}`)
