import type { Feedback as Given } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { useRef } from "preact/hooks"
import { config } from "../gateway/Config.ts"
import { askJson } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { planHref } from "../route/Route.ts"
import { Problem } from "../shell/Notice.tsx"

const isGiven = (value: unknown): value is Given =>
  typeof value === "object" && value !== null && "score" in value && typeof value.score === "number"

const thumbs = [
  { score: 1, sign: "👍", word: "Good" },
  { score: -1, sign: "👎", word: "Bad" }
] as const

const inWords = ({ caller, comment, labels, score }: Given): string =>
  [`${caller}: ${thumbs.find((thumb) => thumb.score * score > 0)?.word ?? "Neither good nor bad"}`]
    .concat(labels.length === 0 ? [] : `(${labels.join(", ")})`, comment === null ? [] : `“${comment}”`)
    .join(" ")

/** What is said of a plan: a thumb, and why. What others have said is below. */
export const Feedback = ({ planId }: { readonly planId: string }) => {
  const path = `${planHref(planId)}/feedback`
  const { data, refresh } = useResource(path, async (signal) => {
    const { feedback } = await askJson(path, { signal })
    return Array.isArray(feedback) ? feedback.filter(isGiven) : []
  })
  const problem = useSignal<unknown>(undefined)
  const isBusy = useSignal(false)
  const why = useRef<HTMLInputElement>(null)
  const given = data.value ?? []
  const own = given.find(({ caller }) => caller === config.value?.caller)
  const others = given.filter((one) => one !== own)

  const give = async (score: number) => {
    if (isBusy.value) return
    isBusy.value = true
    problem.value = undefined
    const comment = why.current?.value.trim() ?? own?.comment ?? ""
    const body = { score, ...(comment !== "" && { comment }), ...(own !== undefined && { labels: own.labels }) }
    try {
      await askJson(path, { method: "POST", body })
      refresh()
    } catch (error) {
      problem.value = error
    }
    isBusy.value = false
  }

  return (
    <section class="feedback" aria-label="Feedback">
      <div class="actions">
        {thumbs.map(({ score, sign, word }) => (
          <button
            type="button"
            key={word}
            class="quiet"
            aria-pressed={own !== undefined && own.score * score > 0}
            disabled={isBusy.value}
            onClick={() => void give(score)}
          >
            <span aria-hidden="true">{sign}</span> {word}
          </button>
        ))}
        {own === undefined ? null : (
          <form
            onSubmit={(event) => {
              event.preventDefault()
              void give(own.score)
            }}
          >
            <input
              type="text"
              aria-label="Why?"
              placeholder="Why?"
              maxLength={10_000}
              defaultValue={own.comment ?? ""}
              ref={why}
            />
            <button type="submit" class="quiet" disabled={isBusy.value}>
              Save
            </button>
          </form>
        )}
      </div>
      <Problem error={problem.value} />
      {others.map((one) => (
        <p key={one.caller} class="dim plain">
          {inWords(one)}
        </p>
      ))}
    </section>
  )
}
