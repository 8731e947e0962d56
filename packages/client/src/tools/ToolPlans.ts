import { type AttachOptions, type Bowline, createBowline as createPlain, type PlanOptions } from "../Bowline.ts"
import { systemClock } from "../Clock.ts"
import { makeIterator, textsOf } from "../FrameLog.ts"
import type { PlanStream } from "../PlanStream.ts"
import { type BowlineOptions, fullJitter } from "../Requests.ts"
import type { PlanFrame, PlanRequest } from "../Wire.ts"
import { type ClientTools, makeToolRuns } from "./ToolRuns.ts"

export type { ClientTool, ClientTools, ToolCall } from "./ToolRuns.ts"

/** What is asked of a plan, with the tools that this process runs, by their names. */
export type ToolPlanRequest = Omit<PlanRequest, "tools"> & { readonly tools?: ClientTools | undefined }

/** From where a plan is read, and what runs for it here. */
export interface ToolAttachOptions extends AttachOptions {
  readonly tools?: ClientTools | undefined
}

/** The client of one gateway, which runs tools for its plans. */
export interface ToolBowline extends Omit<Bowline, "plan" | "attach"> {
  /** Starts a plan, reads it, and runs its calls of these tools. */
  readonly plan: (request: ToolPlanRequest, options?: PlanOptions) => PlanStream
  /** Reads a plan that somebody has started, and runs its calls of these tools that wait. Whoever leaves it leaves it alone. */
  readonly attach: (planId: string, options?: ToolAttachOptions) => PlanStream
}

const toWire = (tools: ClientTools): NonNullable<PlanRequest["tools"]> =>
  Object.entries(tools).map(([name, { approval, description, effect, output, schema, wait_timeout_ms }]) => ({
    name,
    input_schema: schema,
    ...(description !== undefined && { description }),
    ...(output !== undefined && { output_schema: output }),
    ...(approval !== undefined && { approval }),
    ...(wait_timeout_ms !== undefined && { wait_timeout_ms }),
    ...(effect !== undefined && { effect })
  }))

/**
 * The same plan, with one reader more, which runs tools. It leaves when all other readers have left and nobody waits for `result()`, so that the plan
 * ends with its caller as ever.
 */
const readBeside = (plan: PlanStream, onFrame: (frame: PlanFrame) => void, life: AbortController): PlanStream => {
  const own = plan[Symbol.asyncIterator]()
  let readers = 0
  let isAwaited = false

  const follow = async (): Promise<void> => {
    try {
      for (let read = await own.next(); read.done !== true; read = await own.next()) onFrame(read.value)
    } finally {
      life.abort()
    }
  }
  // Whoever reads the plan hears why it broke.
  follow().catch(() => undefined)

  const iterate = (): AsyncIterableIterator<PlanFrame, undefined> => {
    const reading = plan[Symbol.asyncIterator]()
    let hasLeft = false
    readers++
    return makeIterator(
      () => reading.next(),
      () => {
        if (!hasLeft && --readers === 0 && !isAwaited) void own.return?.()
        hasLeft = true
        return reading.return?.() ?? Promise.resolve({ done: true, value: undefined })
      }
    )
  }

  return {
    [Symbol.asyncIterator]: iterate,
    get planId() {
      return plan.planId
    },
    get lastEventId() {
      return plan.lastEventId
    },
    get response() {
      return plan.response
    },
    text: () => textsOf(iterate()),
    view: plan.view,
    send: plan.send,
    cancel: plan.cancel,
    result: () => {
      isAwaited = true
      return plan.result()
    }
  }
}

/**
 * The same client, whose plans have tools that run in this process. Each call runs once at most in a process; of several processes the
 * first result counts. A process that awaits nothing else lives as long as such a plan.
 *
 * @example
 * ```ts
 * import type { Bowline } from "@bowline/client"
 * import { type ClientTools, createBowline, withTools } from "@bowline/client/tools"
 *
 * const tools: ClientTools = {
 *   place: {
 *     description: "Where the user is",
 *     schema: { type: "object", properties: {} },
 *     run: async () => ({ harbour: "Cowes" })
 *   }
 * }
 *
 * export const ask = (bowline: Bowline) => withTools(bowline).plan({ question: "Which wind have I?", tools }).result()
 * // On a page that was loaded again.
 * export const goOn = (planId: string) => createBowline({ baseUrl: "" }).attach(planId, { tools }).result()
 * ```
 */
export const withTools = (bowline: Bowline): ToolBowline => {
  const serve = (plan: PlanStream, tools: ClientTools, isFresh: boolean, isFound: boolean): PlanStream => {
    const life = new AbortController()
    const system = { clock: systemClock, backoff: fullJitter(systemClock) }
    const runs = makeToolRuns(bowline, tools, system, isFresh, life.signal)
    if (isFound) plan.planId.then(runs.find, () => undefined)
    return readBeside(plan, runs.onFrame, life)
  }
  return {
    ...bowline,
    plan: ({ tools, ...request }, options) =>
      tools === undefined
        ? bowline.plan(request, options)
        : serve(bowline.plan({ ...request, tools: toWire(tools) }, options), tools, !options?.idempotencyKey, false),
    attach: (planId, { tools, ...options } = {}) => {
      const plan = bowline.attach(planId, options)
      return tools === undefined ? plan : serve(plan, tools, false, true)
    }
  }
}

/** As `createBowline` of the main entry, for a client whose plans have tools that run in this process. */
export const createBowline = (options: BowlineOptions): ToolBowline => withTools(createPlain(options))
