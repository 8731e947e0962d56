import { Context, Effect, Layer, Schema } from "effect"

export class UnknownOrder extends Schema.TaggedError<UnknownOrder>()("UnknownOrder", { order_id: Schema.Int }) {}

export const Order = Schema.Struct({ order_id: Schema.Int, status: Schema.String, arrives: Schema.String })

/** A service that the app has anyway. */
export class Orders extends Context.Service<
  Orders,
  { readonly find: (order_id: number) => Effect.Effect<typeof Order.Type, UnknownOrder> }
>()("example/Orders") {
  static readonly layer = Layer.succeed(Orders, {
    find: (order_id) =>
      order_id === 7
        ? Effect.succeed({ order_id, status: "on its way", arrives: "Friday" })
        : Effect.fail(new UnknownOrder({ order_id }))
  })
}
