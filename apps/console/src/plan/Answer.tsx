import { computed, type ReadonlySignal, useSignal, useSignalEffect } from "@preact/signals"
import { useMemo, useRef } from "preact/hooks"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { Markdown } from "../text/Markdown.tsx"
import { nextSentences } from "../text/Sentences.ts"

/** How often a screen reader is told of new sentences, in milliseconds. */
const sayEvery = 1_000

/** Says the answer in whole sentences, not letter by letter. */
const Speech = ({ text, over }: { readonly text: ReadonlySignal<string>; readonly over: ReadonlySignal<boolean> }) => {
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

/** The answer as it comes, without what was retracted. */
export const Answer = ({ live }: { readonly live: FollowedPlan }) => {
  const text = useMemo(() => computed(() => live.view.value.text), [live])
  const over = useMemo(() => computed(() => live.view.value.outcome !== null), [live])
  const isOver = over.value
  return (
    <>
      <Speech text={text} over={over} />
      <section class="answer" aria-labelledby="answer" aria-busy={!isOver}>
        <h2 id="answer">Answer</h2>
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
          <Markdown text={text.value} isWhole={isOver} />
        )}
      </section>
    </>
  )
}
