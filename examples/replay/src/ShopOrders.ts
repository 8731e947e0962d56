import { LocalTools } from "@bowline/runtime"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

export const Order = Schema.Struct({ order_id: Schema.Int, status: Schema.String, arrives: Schema.String })

/** What the shop knows. A test fails when this says something else than it said when the plans were recorded. */
export const findOrder = ({ order_id }: { readonly order_id: number }): typeof Order.Type => ({
  order_id,
  status: order_id === 7 ? "on its way" : "delivered",
  arrives: order_id === 7 ? "Friday" : "yesterday"
})

const OrderTools = Toolkit.make(
  Tool.make("find_order", {
    description: "Says where an order is",
    parameters: Schema.Struct({ order_id: Schema.Int }),
    success: Order
  })
)

/** Gives it to the planner. */
export const layer = LocalTools.layer(OrderTools).pipe(
  Layer.provide(OrderTools.toLayer({ find_order: (input) => Effect.succeed(findOrder(input)) }))
)
