import { PlanId } from "@bowline/domain/plan/Plan"
import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import type { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { Array as Arrays, Effect, Exit, References } from "effect"
import * as Bank from "./Bank.ts"
import type { Database } from "./Database.ts"
import type { Open, World } from "./World.ts"
import type { ObservedCall } from "../scenario/Observed.ts"

type Tool = (typeof LocalTools.Service)[number]

const inputSchema = {
  type: "object",
  properties: { key: { type: "string" }, ms: { type: "integer" } },
  required: ["key", "ms"]
}

const keyOf = ({ key }: { readonly key?: unknown }): string | undefined => (typeof key === "string" ? key : undefined)

/** Works for the time in its arguments. A call of `repeat` may be made again. */
const toolOf = (name: string): Tool => ({
  name,
  kind: "local",
  agent: null,
  endpoint: null,
  skill: null,
  description: name,
  inputSchema,
  timeoutMs: undefined,
  isIdempotent: name === "repeat",
  isPolling: false,
  approval: undefined,
  identify: Effect.succeed(null),
  call: ({ input }) =>
    Effect.as(Effect.sleep(Number(input["ms"])), { state: "completed", content: `did ${keyOf(input) ?? "it"}` })
})

/** The local tools of a gateway whose app brings none. */
export const tools = [toolOf("work"), toolOf("repeat")] as const

/** Those that pay. */
export const payments: ReadonlyArray<Tool> = Bank.payments.map(({ effect, isIdempotent, name }) => ({
  ...toolOf(name),
  isIdempotent,
  inputSchema: Bank.paymentSchema,
  effect
}))

/** The tools that a caller brings with its question, and runs itself: nobody but the caller gets their calls. */
export const clientTools: ReadonlyArray<typeof ClientTool.Encoded> = [
  { name: "page", description: "page", input_schema: inputSchema },
  ...Bank.payments.map(({ effect, name }) => ({ name: `app_${name}`, input_schema: Bank.paymentSchema, effect }))
]

/** The names of those of them that pay. */
export const clientPayments = Arrays.map(Bank.payments, ({ name }) => `app_${name}`)

/** The same tool; each of its calls is noted. A call is known by its `key`, or else by its id. */
export const noted = (world: World, database: Database, replica: string, tool: Tool): Tool => ({
  ...tool,
  call: (given) =>
    Effect.gen(function* () {
      const key = keyOf(given.input) ?? given.taskId
      const plan = database.nameOf(PlanId.make(String((yield* References.CurrentLogAnnotations)["plan_id"])))
      const order = Bank.orderOf(given.input)
      const call: Open<ObservedCall> = {
        ...(order !== undefined && { payment: { order, key: given.idempotencyKey ?? "", isRefused: false } }),
        key,
        plan,
        task_id: given.taskId,
        tool: tool.name,
        isIdempotent: tool.isIdempotent,
        isFree: tool.approval === "never",
        replica,
        began: world.moment(),
        ms: 0,
        result: undefined,
        ended: undefined,
        cancels: [],
        remote_task_id: null,
        named: undefined
      }
      world.calls.push(call)
      world.tell(replica, plan, `calls ${tool.name} ${key}`)
      return yield* Effect.onExit(tool.call(given), (exit) =>
        Effect.sync(() => {
          call.ended = world.moment()
          if (Exit.isSuccess(exit)) call.result = exit.value
          const how = Exit.isSuccess(exit) ? `is ${exit.value.state}` : "was interrupted"
          world.tell(replica, plan, `${tool.name} ${key} ${how}`)
        })
      )
    })
})
