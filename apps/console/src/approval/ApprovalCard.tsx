import { BowlineError, type Json } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { useRef } from "preact/hooks"
import { Arguments } from "../call/Arguments.tsx"
import { isObject } from "../call/FormValues.ts"
import { type KnownTool, schemaOf } from "../call/ToolSchemas.ts"
import { isOwn } from "../gateway/Config.ts"
import { now } from "../gateway/GatewayClock.ts"
import { inWords } from "../gateway/Gateway.ts"
import { useValue } from "../call/ValueForm.tsx"
import { planHref, sessionHref } from "../route/Route.ts"
import { Fact } from "../shell/Block.tsx"
import { Sign } from "../shell/Sign.tsx"
import { relative, shortId } from "../text/Format.ts"
import { useApprovalContext } from "./ApprovalContext.ts"
import { ChangedCall, type Remember } from "./ChangedCall.tsx"
import { decide, type Deciding } from "./Pending.ts"
import { Earlier, Elsewhere, Story } from "./Story.tsx"
import { TimeLeft } from "./TimeLeft.tsx"

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
  /** What is known besides, see `earlierOf`. */
  readonly data?: Json | null | undefined
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
  description_changed: "the tool's description has changed since it was first seen",
  maybe_done: "an earlier call may have done the same",
  fork: "the plan is run again, and the tool is real"
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

/** The earlier call of which nobody knows whether it has done the same. */
const earlierOf = ({ data }: Asked) => {
  if (!isObject(data)) return undefined
  const { at, plan_id: planId, task_id: taskId } = data
  if (typeof at !== "string" || typeof planId !== "string" || typeof taskId !== "string") return undefined
  return { at: Date.parse(at), planId, taskId }
}

interface Consequence extends Pick<Asked, "agent" | "tool"> {
  readonly isChanged: boolean
  readonly mayBeDone: boolean
}

const Consequences = ({ agent, isChanged, mayBeDone, tool }: Consequence) => (
  <dl class="consequences">
    <div>
      <dt>Approve</dt>
      <dd>
        <code>{tool}</code> {agent === null ? "" : `of ${agent} `}is called at once and only once, with exactly{" "}
        {isChanged ? "your" : "these"} arguments, and the plan goes on with its result.
      </dd>
    </div>
    <div>
      <dt>Reject</dt>
      <dd>
        Nothing is called. The model reads that it was rejected, and your note, and goes on without it.
        {mayBeDone ? " The earlier call counts as done: nobody is asked about it again." : ""}
      </dd>
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
  const isOpen = verdict === undefined && sent.value === undefined
  // Who decides about another caller's call cannot read there who did.
  const isOwnWord = sent.value !== undefined && (verdict === undefined || verdict.decision === "unknown")
  const context = useApprovalContext(asked, card, links)
  const own = context?.own ?? null
  const known = schema ?? (own === null ? null : schemaOf(own.plan, asked.tool))
  const given = isObject(asked.input) ? asked.input : {}
  const before = asked.why === "maybe_done" ? earlierOf(asked) : undefined
  const changed = useValue(known, given, `${asked.taskId} ${known === null}`)
  const isChanged = useSignal(false)
  const remember = useSignal<Remember>("")

  /** What goes with an approval beside the note. */
  const readMore = (): Pick<Deciding, "input" | "remember"> | { readonly problem: string } => {
    const kept = remember.value === "" ? {} : { remember: remember.value }
    if (!isChanged.value) return kept
    const read = changed.read()
    if ("problem" in read) return read
    return JSON.stringify(read.value) === JSON.stringify(asked.input) ? kept : { ...kept, input: read.value }
  }

  const submit = async (decision: "approve" | "reject") => {
    if (isBusy.value || !isOpen) return
    const more = decision === "approve" ? readMore() : {}
    if ("problem" in more) {
      problem.value = more.problem
      return
    }
    isBusy.value = true
    problem.value = undefined
    try {
      const words = note.value.trim()
      await decide(
        { plan_id: asked.planId, task_id: asked.taskId },
        { decision, ...(words === "" ? {} : { note: words }), ...more }
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
        {isOpen ? <TimeLeft until={asked.expiresAt} /> : null}
      </header>
      {context === undefined ? null : <Story context={context} />}
      <dl class="facts">
        {asked.agent === null ? null : <Fact name="Peer">{asked.agent}</Fact>}
        <Fact name="Because">{reasons[asked.why] ?? asked.why}</Fact>
        {before === undefined ? null : (
          <Fact name="Earlier call">
            <a href={`${planHref(before.planId)}?row=task-${encodeURIComponent(before.taskId)}`}>
              {relative(before.at, now())}
            </a>
            : nobody knows what it did
          </Fact>
        )}
        {asked.caller === null || context !== undefined ? null : <Fact name="Asked by">{asked.caller}</Fact>}
        {links ? (
          <Fact name="Plan">
            {asked.caller === null || isOwn(asked.caller) ? (
              <a href={planHref(asked.planId)}>{shortId(asked.planId)}</a>
            ) : (
              shortId(asked.planId)
            )}
          </Fact>
        ) : null}
        {context === undefined ? null : (
          <Fact name="Session">
            {own === null ? context.session : <a href={sessionHref(own.plan.session_id)}>{context.session}</a>}
          </Fact>
        )}
      </dl>
      <Arguments title="Call" input={asked.input} schema={known} />
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
          <ChangedCall isChanged={isChanged} remember={remember} value={changed} />
          <Consequences
            agent={asked.agent}
            isChanged={isChanged.value}
            mayBeDone={before !== undefined}
            tool={asked.tool}
          />
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
