import { BowlineError, type Json } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { useRef } from "preact/hooks"
import { Arguments } from "../call/Arguments.tsx"
import { type KnownTool, schemaOf } from "../call/ToolSchemas.ts"
import { now } from "../gateway/GatewayClock.ts"
import { inWords } from "../gateway/Gateway.ts"
import { planHref, sessionHref } from "../route/Route.ts"
import { Fact } from "../shell/Block.tsx"
import { Sign } from "../shell/Sign.tsx"
import { State } from "../shell/State.tsx"
import { counted, duration, firstLine, relative, shortId } from "../text/Format.ts"
import { type ApprovalContext, useApprovalContext } from "./ApprovalContext.ts"
import type { EarlierCall } from "./EarlierCalls.ts"
import { decide } from "./Pending.ts"

/** A call that a person decides about, wherever it is shown. */
export interface Asked {
  readonly planId: string
  /** Null where the card stands within its plan. */
  readonly sessionId: string | null
  readonly taskId: string
  readonly tool: string
  /** The peer that is called; null for a tool that is none's. */
  readonly agent: string | null
  readonly input: Json
  readonly why: string
  readonly expiresAt: number
  readonly caller: string | null
}

/** What became of it. Null: the plan ended first. `unknown`: it waits no longer, and nobody has said why yet. */
export interface Verdict {
  readonly decision: "approve" | "reject" | "unknown" | null
  readonly by: string | null
  readonly note: string | null
}

const reasons: Readonly<Record<string, string>> = {
  sensitive: "the tool is sensitive",
  always: "the request asks for an approval of every call",
  skill: "the skill asks for an approval",
  description_changed: "the tool's description has changed since it was first seen"
}

const Decided = ({ verdict }: { readonly verdict: Verdict }) => (
  <p role="status" class="verdict">
    {verdict.decision === null || verdict.decision === "unknown" ? (
      verdict.decision === null ? (
        "The plan ended before anybody decided."
      ) : (
        "It waits no longer."
      )
    ) : (
      <>
        <Sign of={verdict.decision === "approve" ? "good" : "bad"} />
        {verdict.decision === "approve" ? "Approved" : "Rejected"} by <strong>{verdict.by ?? "somebody"}</strong>
        {verdict.note === null ? "" : `: ${verdict.note}`}
      </>
    )}
  </p>
)

/** How many earlier calls are shown. */
const mostEarlier = 5

const Earlier = ({ calls, tool }: { readonly calls: ReadonlyArray<EarlierCall>; readonly tool: string }) =>
  calls.length === 0 ? (
    <p class="dim">
      No earlier call of <code>{tool}</code> in this session.
    </p>
  ) : (
    <details open={calls.length <= mostEarlier}>
      <summary>
        {counted(calls.length, "earlier call")} of <code>{tool}</code> in this session
      </summary>
      <ul class="earlier">
        {calls.slice(0, mostEarlier).map(({ at, input, planId, state, taskId }) => (
          <li key={taskId}>
            <State state={state ?? "running"} />{" "}
            <a href={`${planHref(planId)}?row=task-${encodeURIComponent(taskId)}`}>
              <code>{firstLine(JSON.stringify(input), 120)}</code>
            </a>{" "}
            <span class="dim">{relative(at, now())}</span>
          </li>
        ))}
      </ul>
      {calls.length > mostEarlier ? (
        <p class="dim">
          The newest {mostEarlier} of {calls.length}.
        </p>
      ) : null}
    </details>
  )

/** Plans of other sessions that called the tool: what it is used for. */
const Elsewhere = ({
  plans,
  tool
}: {
  readonly plans: NonNullable<ApprovalContext["own"]>["elsewhere"]
  readonly tool: string
}) =>
  plans.length === 0 ? null : (
    <details>
      <summary>
        Called in other sessions: <code>{tool}</code>
      </summary>
      <ul class="earlier">
        {plans.map(({ created_at, plan_id, question_preview, state }) => (
          <li key={plan_id}>
            <State state={state} /> <a href={planHref(plan_id)}>{firstLine(question_preview)}</a>{" "}
            <span class="dim">{relative(Date.parse(created_at), now())}</span>
          </li>
        ))}
        <li>
          <a href={`/plans?tool=${encodeURIComponent(tool)}`}>All plans that called it</a>
        </li>
      </ul>
    </details>
  )

/** Who asked what, and what the model said before it asked for the call. */
const Story = ({ context: { caller, own, question } }: { readonly context: ApprovalContext }) => (
  <dl class="story">
    <div>
      <dt>{caller} asked</dt>
      <dd>
        {own === null ? firstLine(question, 400) : <a href={planHref(own.plan.plan_id)}>{firstLine(question, 400)}</a>}
      </dd>
    </div>
    {own === null ? null : (
      <div>
        <dt>The model said</dt>
        <dd>{own.said.trim() === "" ? <span class="dim">nothing before the call</span> : firstLine(own.said, 600)}</dd>
      </div>
    )}
  </dl>
)

const Consequences = ({ agent, tool }: Pick<Asked, "agent" | "tool">) => (
  <dl class="consequences">
    <div>
      <dt>Approve</dt>
      <dd>
        <code>{tool}</code> {agent === null ? "" : `of ${agent} `}is called at once and only once, with exactly these
        arguments, and the plan goes on with its result.
      </dd>
    </div>
    <div>
      <dt>Reject</dt>
      <dd>Nothing is called. The model reads that it was rejected, and your note, and goes on without it.</dd>
    </div>
  </dl>
)

/** A call with all that is needed to decide about it. With the card focused `a` approves and `r` rejects. */
export const ApprovalCard = ({
  asked,
  links = true,
  schema,
  verdict
}: {
  readonly asked: Asked
  readonly verdict?: Verdict | undefined
  /** Whether it stands apart from its plan: then it says where it comes from. */
  readonly links?: boolean
  /** What is known of the tool where the card stands within its plan. */
  readonly schema?: KnownTool["schema"]
}) => {
  const card = useRef<HTMLElement>(null)
  const note = useSignal("")
  const isBusy = useSignal(false)
  const sent = useSignal<"approve" | "reject" | undefined>(undefined)
  const problem = useSignal<string | undefined>(undefined)
  const left = asked.expiresAt - now()
  const isOpen = verdict === undefined && sent.value === undefined
  // Who decides about another caller's call cannot read there who did.
  const isOwnWord = sent.value !== undefined && (verdict === undefined || verdict.decision === "unknown")
  const context = useApprovalContext(asked, card, links)
  const own = context?.own ?? null

  const submit = async (decision: "approve" | "reject") => {
    if (isBusy.value || !isOpen) return
    isBusy.value = true
    problem.value = undefined
    try {
      const words = note.value.trim()
      await decide(
        { plan_id: asked.planId, task_id: asked.taskId },
        { decision, ...(words === "" ? {} : { note: words }) }
      )
      sent.value = decision
    } catch (error) {
      const isLate = error instanceof BowlineError && error.status === 409
      problem.value = isLate ? `Your decision came too late: ${inWords(error)}` : inWords(error)
    }
    isBusy.value = false
  }

  const onKeyDown = (event: KeyboardEvent) => {
    // Only the card itself: what is typed into the note is a note.
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return
    if (event.key === "a") void submit("approve")
    if (event.key === "r") void submit("reject")
  }

  return (
    <article
      ref={card}
      class="card approval"
      tabIndex={0}
      aria-label={`Approval of ${asked.tool}`}
      onKeyDown={onKeyDown}
    >
      <header>
        <h3>
          <code>{asked.tool}</code>
        </h3>
        {isOpen ? (
          <span class="state tone-waiting">
            <Sign of="waiting" />
            {left > 0 ? `${duration(left).replace(/\.\d s/, " s")} left` : "its time is over"}
          </span>
        ) : null}
      </header>
      {context === undefined ? null : <Story context={context} />}
      <dl class="facts">
        {asked.agent === null ? null : <Fact name="Peer">{asked.agent}</Fact>}
        <Fact name="Because">{reasons[asked.why] ?? asked.why}</Fact>
        {asked.caller === null || context !== undefined ? null : <Fact name="Asked by">{asked.caller}</Fact>}
        {links ? (
          <Fact name="Plan">
            <a href={planHref(asked.planId)}>{shortId(asked.planId)}</a>
          </Fact>
        ) : null}
        {context === undefined ? null : (
          <Fact name="Session">
            {own === null ? context.session : <a href={sessionHref(own.plan.session_id)}>{context.session}</a>}
          </Fact>
        )}
      </dl>
      <Arguments
        title="Call"
        input={asked.input}
        schema={schema ?? (own === null ? null : schemaOf(own.plan, asked.tool))}
      />
      {own === null ? null : (
        <>
          <Earlier calls={own.earlier} tool={asked.tool} />
          <Elsewhere plans={own.elsewhere} tool={asked.tool} />
        </>
      )}
      {problem.value === undefined ? null : (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
      {verdict === undefined || isOwnWord ? null : <Decided verdict={verdict} />}
      {isOwnWord ? (
        <p role="status" class="verdict">
          <Sign of={sent.value === "approve" ? "good" : "bad"} />
          {sent.value === "approve" ? "You approved it." : "You rejected it."}
        </p>
      ) : null}
      {isOpen ? (
        <>
          <Consequences agent={asked.agent} tool={asked.tool} />
          <div class="decide">
            <label>
              Note for the model
              <input
                value={note.value}
                maxLength={4_096}
                onInput={(event) => {
                  note.value = event.currentTarget.value
                }}
              />
            </label>
            <button type="button" class="primary" disabled={isBusy.value} onClick={() => void submit("approve")}>
              Approve <kbd>a</kbd>
            </button>
            <button type="button" class="danger" disabled={isBusy.value} onClick={() => void submit("reject")}>
              Reject <kbd>r</kbd>
            </button>
          </div>
        </>
      ) : null}
    </article>
  )
}
