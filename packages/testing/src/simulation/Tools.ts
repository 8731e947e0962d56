import type { LocalTools } from "@bowline/runtime/tool/LocalTools"
import { Effect, Exit } from "effect"
import type { Open, World } from "./World.ts"
import type { ObservedCall } from "./Observed.ts"

const inputSchema = {
  type: "object",
  properties: { key: { type: "string" }, ms: { type: "integer" } },
  required: ["key", "ms"]
}

/** What the tools of a replica are called. A call of `repeat` may be made again. */
export const localTools = ["work", "repeat"] as const

/** The local tools of a replica: each call works for the time in its arguments, and is noted. */
export const make = (world: World, replica: string): (typeof LocalTools)["Service"] =>
  localTools.map((name) => ({
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
    call: ({ input, taskId }) =>
      Effect.suspend(() => {
        const key = String(input["key"])
        const plan = key.split("/")[0] ?? ""
        const call: Open<ObservedCall> = {
          key,
          plan,
          task_id: taskId,
          tool: name,
          isIdempotent: name === "repeat",
          replica,
          began: world.moment(),
          ended: undefined,
          cancels: [],
          remote_task_id: null
        }
        world.calls.push(call)
        world.tell(replica, plan, `calls ${name} ${key}`)
        return Effect.sleep(Number(input["ms"])).pipe(
          Effect.as({ state: "completed" as const, content: `did ${key}` }),
          Effect.onExit((exit) =>
            Effect.sync(() => {
              call.ended = world.moment()
              world.tell(replica, plan, `${name} ${key} ${Exit.isSuccess(exit) ? "is done" : "was interrupted"}`)
            })
          )
        )
      })
  }))
