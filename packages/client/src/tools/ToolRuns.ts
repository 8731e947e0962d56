import type { Bowline } from "../Bowline.ts"
import { reasonOf } from "../BowlineError.ts"
import { sleep } from "../Clock.ts"
import { mayPass, type System, toError } from "../Requests.ts"
import type { NewEntry } from "../InboxWire.ts"
import type { Json, PlanFrame, ToolEffect } from "../Wire.ts"

/** What a tool gets beside its input. */
export interface ToolCall {
  /** Aborted when nobody waits for the result any more: the plan is over, its reader has left, or somebody else has given a result. */
  readonly signal: AbortSignal
  readonly planId: string
  readonly taskId: string
}

/** A tool that runs in this process. */
export interface ClientTool {
  readonly description?: string | undefined
  /** JSON Schema of the input. The gateway checks it. */
  readonly schema: { readonly [key: string]: Json }
  /** JSON Schema of the result, if it has one. */
  readonly output?: { readonly [key: string]: Json } | undefined
  readonly approval?: "never" | "always" | undefined
  readonly wait_timeout_ms?: number | undefined
  /** What must not be done twice: then it throws only if it has done nothing. */
  readonly effect?: ToolEffect | undefined
  /** The result is any JSON. What it throws, the model is told: the call has failed. */
  run(input: { readonly [key: string]: Json }, call: ToolCall): unknown
}

export type ClientTools = Readonly<Record<string, ClientTool>>

type ResultEntry = Extract<NewEntry, { readonly type: "result" }>

const toJson = (value: unknown): Json => {
  // What has a text is a value of JSON; null is in place of `undefined`.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return JSON.stringify(value) === undefined ? null : (value as Json)
}

const failed = (task_id: string, error: unknown): ResultEntry => ({
  type: "result",
  task_id,
  content: reasonOf(error),
  is_error: true
})

/**
 * Runs the calls of a plan that wait for these tools, each one once in this process, until `life` ends. `isFresh`: nobody but this process can
 * have given a result yet. Else it is asked what still waits before something runs.
 *
 *     waiting ──▶ run ──▶ result stored        400, 413: the model is told that the result is none, and waits on where the tool has an effect
 *                  │
 *                  └──▶ aborted: the call has ended elsewhere, or the plan is over
 */
export const makeToolRuns = (
  bowline: Pick<Bowline, "inbox" | "waiting">,
  tools: ClientTools,
  { backoff, clock }: Omit<System, "options">,
  isFresh: boolean,
  life: AbortSignal
) => {
  /** Every call that was run, and what ends it. */
  const runs = new Map<string, AbortController>()
  let isLooking = false
  let mustLook = false

  /** Repeats what may pass for as long as the plan is read: its result is not lost in an outage. */
  const persist = async <A>(signal: AbortSignal, ask: () => Promise<A>): Promise<A> => {
    const next = backoff()
    for (;;) {
      try {
        return await ask()
      } catch (cause) {
        signal.throwIfAborted()
        const error = toError(cause)
        const delay = error.retryAfterMs ?? (await next())
        if (!mayPass(error) || delay === undefined) throw error
        await sleep(clock, signal, delay)
      }
    }
  }

  const resultOf = async (tool: ClientTool, input: Json, call: ToolCall): Promise<ResultEntry> => {
    try {
      // The gateway gives arguments, which are an object.
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion
      const value = await tool.run(input as { readonly [key: string]: Json }, call)
      return { type: "result", task_id: call.taskId, content: toJson(value) }
    } catch (error) {
      return failed(call.taskId, error)
    }
  }

  const run = async (planId: string, taskId: string, tool: ClientTool, input: Json): Promise<void> => {
    const leaving = new AbortController()
    runs.set(taskId, leaving)
    const signal = AbortSignal.any([life, leaving.signal])
    const entry = await resultOf(tool, input, { signal, planId, taskId })
    const send = (sent: ResultEntry) => persist(signal, () => bowline.inbox.send(planId, sent, { signal }))
    if (signal.aborted) return
    try {
      await send(entry)
    } catch (error) {
      const { status } = toError(error)
      // The result is none: too large, or another one than the tool has promised. Whatever waited waits on: what the tool has done is not said to have failed.
      if ((status === 400 || status === 413) && tool.effect === undefined) await send(failed(taskId, error))
    }
  }

  const start = (planId: string, taskId: string, name: string | null, input: Json): void => {
    const tool = name === null || !Object.hasOwn(tools, name) ? undefined : tools[name]
    if (tool === undefined || runs.has(taskId) || life.aborted) return
    // Refused for good: the call waits for another client, or for its end.
    run(planId, taskId, tool, input).catch(() => undefined)
  }

  /** Runs what waits now. What is asked for meanwhile is one more look. */
  const look = async (planId: string): Promise<void> => {
    mustLook = true
    if (isLooking) return
    isLooking = true
    try {
      while (mustLook) {
        mustLook = false
        await persist(life, async () => {
          for await (const one of bowline.waiting.list({ kind: "result" }, { signal: life })) {
            if (one.plan_id === planId) start(planId, one.task_id, one.tool, one.input)
          }
        })
      }
    } finally {
      isLooking = false
    }
  }

  const find = (planId: string): void => void look(planId).catch(() => undefined)

  return {
    /** Runs what waits in a plan that somebody has started. */
    find,
    onFrame: ({ data, event }: PlanFrame): void => {
      if (event === "waiting" && data.kind === "result" && data.task_id !== null) {
        if (isFresh) start(data.plan_id, data.task_id, data.tool, data.input)
        else if (!runs.has(data.task_id)) find(data.plan_id)
      }
      if (event === "task.finished") runs.get(data.task_id)?.abort()
    }
  }
}
