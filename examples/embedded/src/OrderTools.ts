import { LocalTools } from "@bowline/runtime"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Order, Orders, UnknownOrder } from "./Orders.ts"

const FindOrder = Tool.make("find_order", {
  description: "Says where an order is",
  parameters: Schema.Struct({ order_id: Schema.Int }),
  success: Order,
  failure: UnknownOrder,
  // A failure is a result that the model gets to read.
  failureMode: "return"
})

const OrderTools = Toolkit.make(FindOrder)

const handlers = OrderTools.toLayer(
  Effect.gen(function* () {
    const orders = yield* Orders
    return { find_order: ({ order_id }) => orders.find(order_id) }
  })
)

/** Gives the planner the tools of the toolkit. */
export const layer = LocalTools.layer(OrderTools).pipe(Layer.provide(handlers))
