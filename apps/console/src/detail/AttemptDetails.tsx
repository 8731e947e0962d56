import type { PlanView, Usage } from "@bowline/client"
import { toolsOf } from "../call/ToolSchemas.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { Block, Fact } from "../shell/Block.tsx"
import { CopyButton } from "../shell/CopyButton.tsx"
import { cost, count, counted, duration, unknown } from "../text/Format.ts"
import { type AttemptPlace, credentialOf, endOf, speedOf } from "./AttemptFacts.ts"
import { ofAttempt, Prompt, RawFrames } from "./Recorded.tsx"

const share = (part: number, whole: number): number => (whole === 0 ? 0 : Math.min(100, (part / whole) * 100))

/** Tokens by kind. What came out of the provider's cache is the beginning of the prompt. */
const Tokens = ({ usage }: { readonly usage: Usage }) => {
  const { cached_input_tokens: cached, input_tokens: input, output_tokens: output, reasoning_tokens: reasoning } = usage
  return (
    <section class="block" aria-label="Tokens">
      <header>
        <h3>Tokens</h3>
      </header>
      <table class="tokens" aria-label="Tokens">
        <tbody>
          {(
            [
              ["Prompt", input],
              ["of it cached", cached],
              ["Answer", output],
              ["of it reasoning", reasoning]
            ] as const
          ).map(([name, tokens]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td class="number">{count(tokens)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {cached === 0 ? null : (
        <p class="dim">
          <span class="cached" aria-hidden="true">
            <span style={{ width: `${share(cached, input)}%` }} />
          </span>
          The first {Math.round(share(cached, input))} % of the prompt came out of the provider's cache.
        </p>
      )}
    </section>
  )
}

/** The tools that could be called, as far as the request names them, and how often each was called in the step. */
const Tools = ({
  live,
  step,
  view
}: {
  readonly live: FollowedPlan
  readonly view: PlanView
  readonly step: number
}) => {
  const plan = live.plan.value
  if (plan === undefined) return null
  const { sources, tools } = toolsOf(plan)
  const calls = Map.groupBy(
    view.tasks.filter((task) => task.step === step),
    ({ tool }) => tool
  )
  const names = new Set(tools.map(({ name }) => name))
  const others = [...new Set(view.tasks.map(({ tool }) => tool))].filter((name) => !names.has(name))
  const all = [...tools, ...others.map((name) => ({ name, description: null }))]
  return (
    <details>
      <summary>
        Tools offered
        {all.length === 0 ? null : (
          <span class="dim">
            {" "}
            {sources.length > 0 ? "at least " : ""}
            {all.length}
          </span>
        )}
      </summary>
      {all.length === 0 && sources.length === 0 ? <p class="dim">None that the request names.</p> : null}
      <ul class="tools">
        {all.map(({ description, name }) => (
          <li key={name}>
            <code>{name}</code>
            {calls.has(name) ? <strong> called {counted(calls.get(name)?.length ?? 0, "time")}</strong> : null}
            {description === null ? null : <span class="dim"> {description}</span>}
          </li>
        ))}
        {sources.map(({ kind, name, why }) => (
          <li key={`${kind} ${name}`} class="dim">
            Those of the {kind} <code>{name}</code>, {why}.
          </li>
        ))}
      </ul>
      <CopyButton label="Copy" what="Copy the names of the tools" text={all.map(({ name }) => name).join("\n")} />
    </details>
  )
}

/** One request to a provider: what was asked, with what, what came back and how it ended. */
export const AttemptDetails = ({ live, place }: { readonly live: FollowedPlan; readonly place: AttemptPlace }) => {
  const view = live.view.value
  const { attempt, step } = place
  const { costUsd, endedAt, error, firstTokenAt, reasoning, retry, startedAt, text, usage } = attempt
  const speed = speedOf(attempt)
  const end = endOf(view, place)
  return (
    <>
      {error === null ? null : <Block title="Error">{`${error.code}: ${error.message}`}</Block>}
      {retry === null ? null : (
        <Block title="Error of the attempt before" note={`asked again after ${duration(retry.delayMs)}`}>
          {`${retry.error.code}: ${retry.error.message}`}
        </Block>
      )}
      <dl class="facts">
        <Fact name="Model">{attempt.model ?? view.model ?? unknown}</Fact>
        <Fact name="Credential">
          {credentialOf(view, place) ?? (
            <span title="The stream names the credential of a retry and of the last failure only.">{unknown}</span>
          )}
        </Fact>
        <Fact name="Took">{endedAt === null ? unknown : duration(endedAt - startedAt)}</Fact>
        <Fact name="First token">{firstTokenAt === null ? unknown : duration(firstTokenAt - startedAt)}</Fact>
        <Fact name="Finish reason">{end ?? unknown}</Fact>
        <Fact name="Cost">{usage === null ? unknown : cost(costUsd)}</Fact>
        {speed === null ? null : <Fact name="Speed">{counted(speed, "token")} a second</Fact>}
      </dl>
      {usage === null ? null : <Tokens usage={usage} />}
      {text === "" ? null : <Block title={attempt.isRetracted ? "Answer, retracted" : "Answer"}>{text}</Block>}
      {reasoning === "" ? null : <Block title="Reasoning">{reasoning}</Block>}
      <Prompt live={live} step={step.step} />
      <Tools live={live} view={view} step={step.step} />
      <RawFrames live={live} wants={ofAttempt(step.step, attempt.attempt)} />
    </>
  )
}
