import type { AttemptView } from "@bowline/client"
import { computed, useSignal, useSignalEffect } from "@preact/signals"
import { useMemo, useRef } from "preact/hooks"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { CopyButton } from "../shell/CopyButton.tsx"
import { Markdown } from "../text/Markdown.tsx"
import { nextSentences } from "../text/Sentences.ts"

/** How often a screen reader is told of new sentences, in milliseconds. */
const sayEvery = 1_000

/** The answer as it stands, and whether it grows no more. */
const useAnswer = (live: FollowedPlan) => ({
  text: useMemo(() => computed(() => live.view.value.text), [live]),
  over: useMemo(() => computed(() => live.view.value.outcome !== null), [live])
})

/** Says the answer in whole sentences, not letter by letter. It stays where it is when the answer moves. */
export const Speech = ({ live }: { readonly live: FollowedPlan }) => {
  const { over, text } = useAnswer(live)
  const said = useSignal("")
  const spoken = useRef({ upTo: 0, at: 0 })
  const isReplay = useRef(over.peek())
  useSignalEffect(() => {
    const isOver = over.value
    const whole = text.value
    // Whoever opens a plan that is over reads it: nothing is said aloud.
    if (isReplay.current) return undefined
    const say = () => {
      const next = nextSentences(whole, spoken.current.upTo, isOver)
      spoken.current = { upTo: next.upTo, at: performance.now() }
      if (next.say !== "") said.value = next.say.replaceAll(/[*_`#|>]/g, "")
    }
    const wait = isOver ? 0 : spoken.current.at + sayEvery - performance.now()
    if (wait <= 0) {
      say()
      return undefined
    }
    // What came too early is said also if nothing comes behind it.
    const timer = setTimeout(say, wait)
    return () => clearTimeout(timer)
  })
  return (
    <div class="unseen" aria-live="polite">
      {said}
    </div>
  )
}

const Retracted = ({ live }: { readonly live: FollowedPlan }) =>
  live.view.value.steps.flatMap(({ attempts, step }) =>
    attempts
      .filter(({ isRetracted, text }) => isRetracted && text !== "")
      .map(({ attempt, text }) => (
        <details key={`${step}-${attempt}`} class="retracted">
          <summary>
            Retracted: step {step}, attempt {attempt}
          </summary>
          <del class="plain">{text}</del>
        </details>
      ))
  )

const Reasoning = ({ live }: { readonly live: FollowedPlan }) => {
  const reasoning = live.view.value.steps
    .flatMap(({ attempts }) => attempts.map(({ isRetracted, reasoning }) => (isRetracted ? "" : reasoning)))
    .filter((text) => text !== "")
  return reasoning.length === 0 ? null : (
    <details>
      <summary>Reasoning</summary>
      <p class="plain dim">{reasoning.join("\n\n")}</p>
    </details>
  )
}

const isSilent = ({ reasoning, text }: AttemptView) => text === "" && reasoning === ""

/** The answer as it comes, without what was retracted. */
export const Answer = ({ live }: { readonly live: FollowedPlan }) => {
  const { over, text } = useAnswer(live)
  const isOver = over.value
  const isWhole = live.view.value.outcome?.state === "completed"
  const isPartial = isOver && !isWhole
  // What failed before it said anything has its outcome to read, and no answer.
  const isNothing = text.value === "" && live.view.value.steps.every(({ attempts }) => attempts.every(isSilent))
  if (isPartial && isNothing) return null
  return (
    <section class={`answer ${isPartial ? "partial" : ""}`} aria-labelledby="answer" aria-busy={!isOver}>
      <div class="title">
        <h2 id="answer">Answer</h2>
        {isPartial && text.value !== "" ? <span class="dim">partial</span> : null}
        {isOver && text.value !== "" ? <CopyButton label="Copy" what="Copy the answer" text={text.value} /> : null}
      </div>
      <Retracted live={live} />
      <Reasoning live={live} />
      {text.value === "" ? (
        <p class="dim">
          {isOver
            ? "There is none."
            : live.hearing.value === "polling"
              ? "Shown when the plan is over."
              : "Nothing yet."}
        </p>
      ) : (
        <div class="said" tabIndex={isPartial ? 0 : undefined}>
          <Markdown text={text.value} isWhole={isOver} />
        </div>
      )}
    </section>
  )
}
