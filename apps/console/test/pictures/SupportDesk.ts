import { createBowline, type PlanRequest } from "@bowline/client"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { cut, stall, wait } from "@bowline/testing/http/Move"
import { completes, data, produces, says, stuck, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, error, say, think, type Turn, usage } from "@bowline/testing/provider/Turn"
import { type Asked, question, results } from "@bowline/testing/unstable/provider/Script"
import { Context, Effect, Layer } from "effect"
import { start } from "../browser/Gateway.ts"
import { ask } from "../page/Ask.ts"
import type { ShownRoute } from "../page/Routes.ts"

const order = { order_id: "4711", include: ["items", "payments"] }

const answer = `## Order 4711 may be refunded

The policy allows it: the parcel was reported damaged **within 14 days**.

| item | paid | refund |
| --- | ---: | ---: |
| Rope, 20 m | 84.00 EUR | 84.00 EUR |
| Shipping | 6.90 EUR | 6.90 EUR |

1. Refund **90.90 EUR** to the card that paid.
2. Send the return label; the customer keeps the rope.`

const steps = (asked: Asked, turns: ReadonlyArray<Turn>): Turn => turns[results(asked).length] ?? []

/** What the model of the desk says. A question that it does not know hangs. */
const turnOf = (asked: Asked): Turn => {
  const tokens = (output: number, reasoning = 0) => {
    const input = 2_140 + 900 * results(asked).length
    const cached = results(asked).length === 0 ? 1_024 : 2_048
    return usage({
      input_tokens: input,
      output_tokens: output,
      cached_input_tokens: cached,
      reasoning_tokens: reasoning
    })
  }
  switch (question(asked)) {
    case "May order 4711 be refunded?":
      return steps(asked, [
        [
          think("I need the order and what the policy says of damaged parcels."),
          wait("350 millis"),
          say("I look up the order, and the policy on damage."),
          callTool("orders_find", order),
          callTool("policy_search", { input: "refund of a damaged parcel" }),
          tokens(96, 31)
        ],
        [],
        [wait("250 millis"), say(answer.slice(0, 120)), wait("300 millis"), say(answer.slice(120)), tokens(212)]
      ])
    case "Refund it, then.":
      return steps(asked, [
        [
          say("I pay back 90.90 EUR to the card that paid for order 4711."),
          callTool("bank_payout", {
            payee: { name: "A. Lind", iban: "SE45 5000 0000 0583 9825 7466" },
            amount_eur: 90.9,
            order_id: "4711",
            note: "Refund of order 4711, damaged parcel"
          }),
          tokens(58)
        ],
        [wait("200 millis"), say("Done: 90.90 EUR are on their way to A. Lind."), tokens(24)]
      ])
    case "Close the account of ACME, and pay out what is left.":
      return steps(asked, [
        [
          say("The account of ACME has 99,999.00 EUR. To close it I pay all of it out to the IBAN on file."),
          callTool("bank_payout", {
            payee: { name: "ACME Rigging Ltd.", iban: "GB33 BUKB 2020 1555 5555 55" },
            amount_eur: 99_999,
            order_id: null,
            note: "Account closed"
          }),
          tokens(71)
        ]
      ])
    case "Which orders of 1998 had a rope that broke?":
      return [say("I ask the archive."), callTool("archive_search", { input: "rope broke 1998" }), tokens(22)]
    case "Summarise last week's complaints.":
      return asked.model.length > 0 ? flaky() : []
    case "Is the warehouse in Oslo open today?":
      return [error(400, { message: "Invalid schema for function 'archive_search': 'type' is missing" })]
    default:
      return [think("A long look at the books first."), say("I am reading the ledger of this year."), stall]
  }
}

let halves = 0

/** Breaks off once in a while, as providers do. */
const flaky = (): Turn =>
  halves++ % 3 < 2
    ? [say("Last week there were 31 complaints, most of them about "), wait("300 millis"), cut]
    : [
        wait("250 millis"),
        say("Last week there were **31 complaints**: 19 about late parcels, 8 about wrong items, 4 about damage."),
        usage({ input_tokens: 8_420, output_tokens: 41, cached_input_tokens: 4_096 })
      ]

const payout = {
  type: "object",
  properties: {
    payee: {
      type: "object",
      properties: {
        name: { type: "string", description: "As it stands on the invoice" },
        iban: { type: "string", description: "The account that gets the money" }
      }
    },
    amount_eur: { type: "number", description: "Paid out at once; cannot be undone", maximum: 100_000 },
    order_id: { type: ["string", "null"], description: "The order that it is about" },
    note: { type: "string", maxLength: 140 }
  },
  required: ["payee", "amount_eur"]
}

const at = (name: string, { url }: { readonly url: string }, skills: ReadonlyArray<object>) => ({
  name,
  endpoint: `${url}/`,
  dialect: "a2a-0.3" as const,
  skills
})

/** A gateway at a support desk on an ordinary day: plans that completed, failed, run and wait for somebody. */
export class SupportDesk extends Context.Service<
  SupportDesk,
  { readonly url: string; readonly routes: ReadonlyArray<ShownRoute> }
>()("SupportDesk") {
  static readonly layer = Layer.effect(
    SupportDesk,
    Effect.gen(function* () {
      const orders = yield* ScriptedPeer.serve({
        acts: [
          says("Reading the order"),
          works("220 millis"),
          produces([data({ order_id: "4711", state: "delivered", paid_eur: 90.9, items: ["Rope, 20 m"] })]),
          completes()
        ]
      })
      const policy = yield* ScriptedPeer.serve({
        acts: [
          works("600 millis"),
          produces("§ 4.2: what arrives damaged is refunded in full within 14 days."),
          completes()
        ]
      })
      const bank = yield* ScriptedPeer.serve({ acts: [works("300 millis"), completes("Transfer 88123 is booked.")] })
      const archive = yield* ScriptedPeer.serve({ acts: [says("Searching 1998"), stuck] })
      const { url } = yield* start(turnOf, { BOWLINE_RETRY_BASE: "200ms", BOWLINE_MODEL: "openai/gpt-5-mini" })
      const agents = [
        at("orders", orders, [
          { id: "find", description: "Finds an order by its number.", input_schema: { type: "object" } }
        ]),
        at("policy", policy, [{ id: "search", description: "Says what the policy allows." }]),
        at("bank", bank, [{ id: "payout", description: "Pays money out.", approval: "always", input_schema: payout }]),
        at("archive", archive, [{ id: "search", description: "Searches orders before 2010." }])
      ] as unknown as NonNullable<PlanRequest["agents"]>
      const bowline = createBowline({ baseUrl: url })
      const put = (request: PlanRequest) => ask(url, { ...request, agents })
      const over = async (planId: string) => {
        for await (const { event } of bowline.attach(planId)) if (event === "done") return planId
        return planId
      }
      const approveFirst = async (planId: string) => {
        for await (const { event } of bowline.attach(planId)) if (event === "approval.requested") break
        for await (const { plan_id, task_id } of bowline.approvals.list())
          if (plan_id === planId) await bowline.plans.approve(planId, task_id, "approve", { note: "checked with Ann" })
        return over(planId)
      }
      const routes = yield* Effect.promise(async (): Promise<ReadonlyArray<ShownRoute>> => {
        const metadata = { ticket: "T-1207", channel: "mail" }
        const session_id = "order-4711"
        const refunded = await over(await put({ question: "May order 4711 be refunded?", session_id, metadata }))
        const paid = await approveFirst(await put({ question: "Refund it, then.", session_id }))
        await approveFirst(await put({ question: "Refund it, then.", session_id: "order-4702" }))
        const deadline = { timeout_ms: 6_800 }
        const [stuckPeer, retried] = await Promise.all([
          put({ question: "Which orders of 1998 had a rope that broke?", preferences: deadline }).then(over),
          put({ question: "Summarise last week's complaints." }).then(over),
          put({ question: "Is the warehouse in Oslo open today?" }).then(over)
        ])
        const running = await put({ question: "Reconcile the ledger with the bank.", session_id: "ledger" })
        await put({ question: "Close the account of ACME, and pay out what is left.", session_id })
        const { session_id: session } = await bowline.plans.get(paid)
        return [
          { name: "ask", path: "/", ready: "tbody tr" },
          { name: "overview", path: "/overview", ready: "main:has(.chart):has(.part tbody tr)" },
          { name: "plans", path: "/plans", ready: "main:has(.chart):has(tbody tr)" },
          {
            name: "plan",
            path: `/plans/${refunded}?row=attempt-1-1`,
            ready: "main:has(.prose):has(.details) [role=row]:has-text('Step 2 finished')"
          },
          { name: "failed", path: `/plans/${stuckPeer}`, ready: "[role=row] >> text=archive_search" },
          {
            name: "retried",
            path: `/plans/${retried}?row=attempt-1-3`,
            ready: "main:has(.prose) [role=row]:has-text('Attempt 3')"
          },
          { name: "running", path: `/plans/${running}`, ready: "main:has(.prose) [role=row]" },
          { name: "sessions", path: "/sessions", ready: "tbody tr" },
          { name: "session", path: `/sessions/${session}`, ready: "main:has(.prose) h1" },
          { name: "approvals", path: "/approvals", ready: ".approval .story" },
          { name: "peers", path: "/peers", ready: "tbody tr" },
          { name: "credentials", path: "/credentials", ready: "tbody tr" }
        ]
      })
      return { url, routes }
    })
  ).pipe(Layer.provide(LoopbackNetwork.layer))
}
