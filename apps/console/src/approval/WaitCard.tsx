import { BowlineError, type Json, type Plan, type Waiting } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { useRef } from "preact/hooks"
import { Arguments } from "../call/Arguments.tsx"
import { isObject } from "../call/FormValues.ts"
import { outputSchemaOf, schemaOf } from "../call/ToolSchemas.ts"
import { useValue, ValueFields, type WrittenValue } from "../call/ValueForm.tsx"
import { inWords, randomKey } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { planHref, sessionHref } from "../route/Route.ts"
import { Fact } from "../shell/Block.tsx"
import { Sign } from "../shell/Sign.tsx"
import { relative, shortId } from "../text/Format.ts"
import { useApprovalContext } from "./ApprovalContext.ts"
import { type Settling, settle } from "./Pending.ts"
import { Story } from "./Story.tsx"
import { TimeLeft } from "./TimeLeft.tsx"

type Kind = Exclude<Waiting["kind"], "approval">

/** What the card is about, and what somebody does with it. */
const words: Readonly<Record<Kind, { readonly name: string; readonly why: string; readonly done: string }>> = {
  result: {
    name: "Result",
    why: "the client runs this tool, and gives its result",
    done: "You gave the result."
  },
  answer: { name: "Answer", why: "who was called asks something", done: "You answered." },
  account: {
    name: "Account",
    why: "who was called needs an account of yours",
    done: "The account is connected."
  }
}

/** A peer may send any text as an address. */
const linkOf = (url: string | null): string | undefined => {
  const parsed = url === null ? null : URL.parse(url)
  return parsed?.protocol === "https:" || parsed?.protocol === "http:" ? parsed.href : undefined
}

/** The content of a result: in the fields of its schema, as a text, or as JSON. */
const contentOf = (isText: boolean, text: string, value: WrittenValue) => (isText ? { value: text } : value.read())

interface Sending {
  readonly isBusy: boolean
  /** Sends an entry, or says why it cannot. */
  readonly send: (entry: Settling | { readonly problem: string }) => void
}

const ResultForm = ({ isBusy, schema, send, taskId }: Sending & { readonly taskId: string; readonly schema: Json }) => {
  const value = useValue(schema, {}, `${taskId} ${JSON.stringify(schema)}`)
  const text = useSignal("")
  // The schema comes with the plan: until then, and without one, a result is a text.
  const chosen = useSignal<boolean | undefined>(undefined)
  const isText = chosen.value ?? value.fields.length === 0
  const isError = useSignal(false)
  const submit = () => {
    const read = isError.value ? { value: text.value } : contentOf(isText, text.value, value)
    if ("problem" in read) return send(read)
    const failed = isError.value ? { is_error: true } : {}
    send({ type: "result", task_id: taskId, content: read.value, ...failed })
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      {isText || isError.value ? (
        <label>
          {isError.value ? "Why the call failed" : "Result"}
          <textarea
            rows={2}
            value={text.value}
            onInput={(event) => {
              text.value = event.currentTarget.value
            }}
          />
        </label>
      ) : (
        <ValueFields label="Result" value={value} />
      )}
      <div class="decide">
        <label class="check">
          <input
            type="checkbox"
            checked={!isText}
            onChange={() => {
              chosen.value = !isText
            }}
          />
          An object, not a text
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={isError.value}
            onChange={() => {
              isError.value = !isError.value
            }}
          />
          The call has failed
        </label>
        <button type="submit" class="primary" disabled={isBusy}>
          Give the result
        </button>
      </div>
    </form>
  )
}

const AnswerForm = ({ isBusy, send, waiting }: Sending & { readonly waiting: Waiting }) => {
  const { data, task_id, url } = waiting
  const value = useValue(data, {}, `${task_id} ${waiting.since}`)
  const text = useSignal("")
  const hasForm = isObject(data)
  const accept = () => {
    if (url !== null) return send({ type: "answer", task_id, action: "accept" })
    if (!hasForm)
      return send(
        text.value.trim() === "" ? { problem: "Write an answer." } : { type: "answer", task_id, text: text.value }
      )
    const read = value.read()
    send("problem" in read ? read : { type: "answer", task_id, action: "accept", data: read.value })
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        accept()
      }}
    >
      {url !== null ? null : hasForm ? (
        <ValueFields label="Answer" value={value} />
      ) : (
        <label>
          Answer
          <textarea
            rows={2}
            value={text.value}
            onInput={(event) => {
              text.value = event.currentTarget.value
            }}
          />
        </label>
      )}
      <div class="decide">
        <button type="submit" class="primary" disabled={isBusy}>
          {url === null ? "Answer" : "I have done it"}
        </button>
        {hasForm || url !== null ? (
          <button
            type="button"
            class="danger"
            disabled={isBusy}
            onClick={() => send({ type: "answer", task_id, action: "decline" })}
          >
            Decline
          </button>
        ) : null}
      </div>
    </form>
  )
}

/** A call that waits for a result, an answer or an account, with what settles it. */
export const WaitCard = ({
  links = true,
  plan,
  waiting,
  waits
}: {
  readonly waiting: Waiting
  readonly waits: boolean
  /** Whether it stands apart from its plan: then it says where it comes from. */
  readonly links?: boolean
  /** The plan, where the card stands within it. */
  readonly plan?: Plan
}) => {
  const card = useRef<HTMLElement>(null)
  const key = useRef(randomKey())
  const isBusy = useSignal(false)
  const isSent = useSignal(false)
  const problem = useSignal<string | undefined>(undefined)
  const { agent, caller, expires_at, input, kind, message, plan_id, session_id, since, task_id, tool, url } = waiting
  const asked = { planId: plan_id, sessionId: session_id, taskId: task_id, tool, caller }
  const context = useApprovalContext(asked, card, links)
  const known = plan ?? context?.own?.plan
  if (kind === "approval") return null
  const { done, name, why } = words[kind]
  const isOpen = waits && !isSent.value
  const href = linkOf(url)

  const send: Sending["send"] = (entry) => {
    if ("problem" in entry) {
      problem.value = entry.problem
      return
    }
    const post = async () => {
      if (isBusy.value) return
      isBusy.value = true
      problem.value = undefined
      try {
        await settle(waiting, entry, key.current)
        isSent.value = true
      } catch (error) {
        // Another body needs another key.
        key.current = randomKey()
        const isLate = error instanceof BowlineError && error.status === 409
        problem.value = isLate ? `You came too late: ${inWords(error)}` : inWords(error)
      }
      isBusy.value = false
    }
    void post()
  }

  return (
    <article ref={card} class="card approval" aria-label={`${name} of ${tool}`}>
      <header>
        <h3>
          <code>{tool}</code>
        </h3>
        {isOpen ? <TimeLeft until={Date.parse(expires_at)} /> : null}
      </header>
      {context === undefined ? null : <Story context={context} />}
      <dl class="facts">
        {agent === null ? null : <Fact name="Peer">{agent}</Fact>}
        <Fact name="Because">{why}</Fact>
        <Fact name="Since">
          <time dateTime={since} title={new Date(since).toUTCString()}>
            {relative(Date.parse(since), now())}
          </time>
        </Fact>
        <Fact name="Until">
          <time dateTime={expires_at}>{new Date(expires_at).toLocaleString()}</time>
        </Fact>
        {context === undefined && links ? <Fact name="Asked by">{caller}</Fact> : null}
        {!links ? null : context?.own == null ? (
          <Fact name="Plan">{shortId(plan_id)}</Fact>
        ) : (
          <>
            <Fact name="Plan">
              <a href={planHref(plan_id)}>{shortId(plan_id)}</a>
            </Fact>
            <Fact name="Session">
              <a href={sessionHref(context.own.plan.session_id)}>{context.session}</a>
            </Fact>
          </>
        )}
      </dl>
      {message === null ? null : <p class="plain said">{message}</p>}
      {url === null ? null : (
        <p>
          {href === undefined ? (
            <code>{url}</code>
          ) : (
            <a href={href} target="_blank" rel="noopener noreferrer">
              {kind === "account" ? `Connect the account for ${tool}` : href}
            </a>
          )}
        </p>
      )}
      <Arguments title="Call" input={input} schema={known === undefined ? null : schemaOf(known, tool)} />
      {problem.value === undefined ? null : (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
      {isOpen && kind === "result" ? (
        <ResultForm
          isBusy={isBusy.value}
          send={send}
          taskId={task_id}
          schema={known === undefined ? null : outputSchemaOf(known, tool)}
        />
      ) : null}
      {isOpen && kind === "answer" ? <AnswerForm isBusy={isBusy.value} send={send} waiting={waiting} /> : null}
      {isOpen && kind === "account" ? <p class="dim">The plan goes on as soon as the account is connected.</p> : null}
      {isOpen ? null : (
        <p role="status" class="verdict">
          <Sign of={isSent.value ? "good" : "plain"} />
          {isSent.value ? done : "It waits no longer."}
        </p>
      )}
    </article>
  )
}
