import {
  initialView,
  isPlanFrame,
  type Message,
  type Plan,
  type PlanSummary,
  type PlanView,
  reduce
} from "@bowline/client"
import { useSignal } from "@preact/signals"
import type { RefObject } from "preact"
import { useEffect } from "preact/hooks"
import { config } from "../gateway/Config.ts"
import { bowline } from "../gateway/Gateway.ts"
import { shortId } from "../text/Format.ts"
import { type EarlierCall, earlierCalls } from "./EarlierCalls.ts"

/** What only the caller of a plan may see of what came before a call. */
interface OwnContext {
  readonly plan: Plan
  /** What the model said before it asked for the call. */
  readonly said: string
  readonly earlier: ReadonlyArray<EarlierCall>
  /** Plans of other sessions that called the tool, the newest first. */
  readonly elsewhere: ReadonlyArray<PlanSummary>
}

/** What came before a call that waits for a decision. */
export interface ApprovalContext {
  readonly question: string
  readonly caller: string
  readonly session: string
  /** Null where somebody else decides. */
  readonly own: OwnContext | null
}

/** A call that waits. */
interface Waiting {
  readonly planId: string
  readonly sessionId: string | null
  readonly taskId: string
  readonly tool: string
  readonly caller: string | null
}

/** The history is read no further than this. */
const mostMessages = 2_000

/** How many plans of other sessions are shown. */
const mostElsewhere = 3

/** The plan as it was when it asked for the decision. */
const viewBefore = async ({ planId, taskId }: Waiting, signal: AbortSignal): Promise<PlanView> => {
  const leaving = new AbortController()
  let view = initialView
  try {
    for await (const frame of bowline.attach(planId, { signal: AbortSignal.any([signal, leaving.signal]) })) {
      view = reduce(view, frame)
      if (!isPlanFrame(frame)) continue
      const { data, event } = frame
      if ((event === "approval.requested" || event === "waiting") && data.task_id === taskId) break
    }
  } finally {
    leaving.abort()
  }
  return view
}

const readOwn = async (plan: Plan, waiting: Waiting, signal: AbortSignal): Promise<OwnContext> => {
  const messages: Array<Message> = []
  for await (const message of bowline.sessions.messages(plan.session_id, { limit: 200 }, { signal })) {
    messages.push(message)
    if (messages.length >= mostMessages) break
  }
  const { plans } = await bowline.plans.list({ tool: waiting.tool, limit: 20 }).page(undefined, { signal })
  const elsewhere = plans.filter(({ session_id }) => session_id !== plan.session_id).slice(0, mostElsewhere)
  const view = await viewBefore(waiting, signal)
  return { plan, said: view.text, earlier: earlierCalls(messages, waiting), elsewhere }
}

const sessionOf = ({ external_session_id, session_id }: Plan | PlanSummary): string =>
  external_session_id ?? shortId(session_id)

/** An admin decides about the calls of others, whose plans the lists show. */
const readOther = async (
  { caller, planId, sessionId }: Waiting,
  signal: AbortSignal
): Promise<ApprovalContext | undefined> => {
  if (caller === null || sessionId === null) return undefined
  const query = { caller, session_id: sessionId, limit: 200 }
  const { plans } = await bowline.plans.list(query).page(undefined, { signal })
  const plan = plans.find(({ plan_id }) => plan_id === planId)
  return plan === undefined
    ? undefined
    : { question: plan.question_preview, caller, session: sessionOf(plan), own: null }
}

const load = async (waiting: Waiting, signal: AbortSignal): Promise<ApprovalContext | undefined> => {
  const me = config.peek()?.caller
  if (me !== undefined && waiting.caller !== null && waiting.caller !== me) return readOther(waiting, signal)
  const plan = await bowline.plans.get(waiting.planId, { signal })
  const { caller, question } = plan
  return { question, caller, session: sessionOf(plan), own: await readOwn(plan, waiting, signal) }
}

/** One card after the other: a page of many must not take all connections of the browser. */
let line: Promise<unknown> = Promise.resolve()

/** Reads the context of a call when its card comes into view. Undefined while it is not there, and where this caller may not see it. */
export const useApprovalContext = (waiting: Waiting, card: RefObject<HTMLElement | null>, isWanted: boolean) => {
  const context = useSignal<ApprovalContext | undefined>(undefined)
  useEffect(() => {
    if (!isWanted || card.current === null) return undefined
    const leaving = new AbortController()
    const seen = new IntersectionObserver(([entry]) => {
      if (entry?.isIntersecting !== true) return
      seen.disconnect()
      const read = async () => {
        if (leaving.signal.aborted) return
        context.value = await load(waiting, leaving.signal)
      }
      // Without it the card has all that the list says: it can be decided about.
      line = line.then(read).catch(() => undefined)
    })
    seen.observe(card.current)
    return () => {
      seen.disconnect()
      leaving.abort()
    }
  }, [waiting.taskId, isWanted])
  return context.value
}
