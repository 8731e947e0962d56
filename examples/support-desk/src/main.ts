import { createBowline } from "@bowline/client"
import * as GatewayProcess from "@bowline/testing/unstable/GatewayProcess"
import { Effect } from "effect"
import assert from "node:assert/strict"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"

process.chdir(`${import.meta.dirname}/../desk`)
process.env["PORT"] = "0"
const { server } = await import("../desk/policy.ts")
if (!server.listening) await once(server, "listening")

const program = Effect.gen(function* () {
  const { url } = yield* GatewayProcess.start(
    fileURLToPath(new URL("../../../apps/gateway/bin/bowline.mjs", import.meta.url)),
    {
      PATH: process.env["PATH"] ?? "",
      BOWLINE_PORT: "0",
      BOWLINE_DATA_DIR: "memory:",
      BOWLINE_CONFIG: "gateway.json",
      POLICY_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    }
  )
  const bowline = createBowline({ baseUrl: url })
  const ask = (question: string) => bowline.plan({ question, session_id: "desk" })
  const answer = (question: string) => Effect.promise(async () => (await ask(question).result()).text)

  const order = yield* answer("Where is order 1042?")
  console.log(order)
  assert.match(order, /I called orders_find with \{"order":1042\}/)
  assert.match(order, /a lamp for 49 EUR, delivered 12 days ago/)

  const policyText = yield* answer("Ask policy whether a lamp may come back after 12 days.")
  console.log(policyText)
  assert.match(policyText, /Returns within 30 days/)

  const refund = yield* Effect.promise(async () => {
    const plan = ask("Refund order 1042.")
    for await (const { event } of plan) {
      const [call] = event === "approval.requested" ? plan.view().approvals : []
      if (call === undefined) continue
      const { input, taskId, tool } = call
      assert.deepStrictEqual([tool, input], ["payments_refund", { order: 1042 }])
      console.log(`${tool} ${JSON.stringify(input)} waits`)
      await bowline.plans.approve(await plan.planId, taskId, "approve", { note: "A good customer" })
    }
    return (await plan.result()).text
  })
  console.log(refund)
  assert.match(refund, /Order 1042 is refunded/)
})

await program.pipe(Effect.scoped, Effect.runPromise)
server.close()
