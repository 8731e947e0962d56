import * as LocalTools from "@bowline/runtime/tool/LocalTools"
import { Effect, Layer, Random, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

class NotNow extends Schema.TaggedError<NotNow>()("NotNow", { message: Schema.String }) {}

const FindOrder = Tool.make("find_order", {
  description: "Says what an order costs",
  parameters: Schema.Struct({ order: Schema.String }),
  success: Schema.Struct({ euros: Schema.Int }),
  failure: NotNow,
  failureMode: "return"
}).annotate(Tool.Idempotent, true)

const pay = (mayRepeat: boolean) =>
  Tool.make("pay", {
    description: "Pays an order",
    parameters: Schema.Struct({ order: Schema.String, euros: Schema.Int }),
    success: Schema.Struct({ paid: Schema.Boolean })
  }).annotate(Tool.Idempotent, mayRepeat)

interface Shop {
  /** Says that a payment may be repeated when nobody knows whether it was made. */
  readonly mayRepeat: boolean
  /** The bank, which is outside of the processes that are killed. */
  readonly onPaid: (order: string) => void
}

/** The tools of a shop. */
export const layer = ({ mayRepeat, onPaid }: Shop) => {
  const toolkit = Toolkit.make(FindOrder, pay(mayRepeat))
  const handlers = toolkit.toLayer({
    find_order: () =>
      Effect.gen(function* () {
        yield* Effect.sleep(yield* Random.nextIntBetween(50, 3_000))
        if ((yield* Random.next) < 0.2) return yield* new NotNow({ message: "The shop does not answer" })
        return { euros: 30 }
      }),
    pay: ({ order }) =>
      Effect.sleep("800 millis").pipe(
        Effect.andThen(Effect.sync(() => onPaid(order))),
        Effect.andThen(Effect.sleep("400 millis")),
        Effect.as({ paid: true })
      )
  })
  return Layer.provide(LocalTools.layer(toolkit), handlers)
}
