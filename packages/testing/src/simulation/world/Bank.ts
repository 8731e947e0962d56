import type { ToolEffect } from "@bowline/domain/tool/TaskState"
import { type Array as Arrays, Option, Schema } from "effect"
import type { ObservedCall } from "../scenario/Observed.ts"

/** The arguments of a payment: the order is an object, so that its members may stand in any order. `memo` is the same as the model wrote it. */
export const paymentSchema = {
  type: "object",
  properties: {
    key: { type: "string" },
    ms: { type: "integer" },
    order: { type: "object", properties: { shop: { type: "string" }, number: { type: "integer" } } },
    memo: { type: "string" }
  },
  required: ["key", "ms", "order", "memo"]
} as const

interface PaymentTool {
  readonly name: string
  readonly effect: ToolEffect
  /** Whoever takes its call over may make it again. MCP servers do not say so. */
  readonly isIdempotent: boolean
}

/** What must not be done twice, by the last part of the name of its tool: by a caller, or in a session. */
export const payments: Arrays.NonEmptyReadonlyArray<PaymentTool> = [
  { name: "pay", effect: { key: ["/order"], scope: "caller" }, isIdempotent: false },
  { name: "book", effect: { key: ["/order"], scope: "session" }, isIdempotent: false },
  { name: "refund", effect: { key: ["/order"], scope: "caller" }, isIdempotent: true }
]

/** The tool that pays, if this one does. */
export const paymentTool = (tool: string): PaymentTool | undefined =>
  payments.find(({ name }) => name === tool.split("_").at(-1))

/** What a payment is about, as arguments of its call. */
export const argumentsOf = (number: number, isTurned: boolean) => {
  const order = isTurned ? { number, shop: "sim" } : { shop: "sim", number }
  return { order, memo: JSON.stringify(order) }
}

const Payment = Schema.Struct({ order: Schema.Struct({ shop: Schema.String, number: Schema.Int }) })
const decodePayment = Schema.decodeUnknownOption(Payment)

/** What these arguments pay: the same text for the same order. Undefined if it is nothing. */
export const orderOf = (input: unknown): string | undefined =>
  Option.getOrUndefined(Option.map(decodePayment(input), ({ order: { number, shop } }) => `${shop} ${number}`))

/** Who pays: effects count among the calls of one caller, and some among those of one session. */
export interface Payer {
  readonly caller: string
  readonly session_id: string
}

/** What is to be done once: its tool, the order, and among whose calls it counts. */
export const effectIdOf = (tool: string, order: string, { caller, session_id }: Payer): string =>
  [tool, order, caller, ...(paymentTool(tool)?.effect.scope === "session" ? [session_id] : [])].join(" ")

/** What the call is to do once; undefined for one that pays nothing. `payerOf` knows plans by their names. */
export const effectIdOfCall = (
  { payment, plan, tool }: Pick<ObservedCall, "payment" | "plan" | "tool">,
  payerOf: (plan: string) => Payer | undefined
): string | undefined => {
  const payer = payerOf(plan)
  return payment === undefined || payer === undefined ? undefined : effectIdOf(tool, payment.order, payer)
}

/** Whether the bank counts the call: it counts all that it gets, but those of which it says itself that they have failed. */
export const isPaid = ({ payment }: Pick<ObservedCall, "payment">): boolean => payment?.isRefused === false
