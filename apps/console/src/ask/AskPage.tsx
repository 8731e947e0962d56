import { useSignal } from "@preact/signals"
import type { TargetedKeyboardEvent } from "preact"
import { AttachedFiles, useAttachments } from "../file/Attachments.tsx"
import { config } from "../gateway/Config.ts"
import { bowline, inWords } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { PlanTable } from "../list/PlanTable.tsx"
import { surviving } from "../plan/Request.ts"
import { useStart } from "../plan/StartPlan.ts"
import { here } from "../route/Location.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { requestOf } from "./Asking.ts"
import { samples } from "./Samples.ts"

/** The name of the preset that a gateway in demo mode has. */
const demo = "demo"

const AskForm = ({
  presets
}: {
  readonly presets: ReadonlyArray<{ readonly name: string; readonly description: string | null }>
}) => {
  const question = useSignal("")
  const preset = useSignal<string | undefined>(undefined)
  const session = useSignal(here.peek().query.get("session_id") ?? "")
  const more = useSignal("")
  const problem = useSignal<string | undefined>(undefined)
  const isBusy = useSignal(false)
  const attached = useAttachments()
  const start = useStart((why) => {
    problem.value = why
  })
  const chosen = preset.value ?? (presets.length === 1 ? (presets[0]?.name ?? "") : "")

  const written = () => {
    const obstacle = attached.obstacle()
    if (obstacle !== undefined) return { problem: obstacle }
    const asked = attached.questionWith(question.value)
    return requestOf({ question: asked, preset: chosen, session: session.value, more: more.value })
  }

  const ask = async (made = written()) => {
    if (isBusy.value) return
    if ("problem" in made) {
      problem.value = made.problem
      return
    }
    isBusy.value = true
    problem.value = undefined
    try {
      await start(made.request)
    } catch (error) {
      problem.value = inWords(error)
    }
    isBusy.value = false
  }

  const onKeyDown = (event: TargetedKeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void ask()
  }

  return (
    <>
      <form
        class="ask"
        {...attached.dropZone}
        onSubmit={(event) => {
          event.preventDefault()
          void ask()
        }}
      >
        <label>
          Question
          <textarea
            rows={3}
            required={attached.files.value.length === 0}
            value={question.value}
            onInput={(event) => {
              question.value = event.currentTarget.value
            }}
            onKeyDown={onKeyDown}
          />
        </label>
        <AttachedFiles to={attached} />
        <div class="fields">
          {presets.length === 0 ? null : (
            <label>
              Preset
              <select
                value={chosen}
                onChange={(event) => {
                  preset.value = event.currentTarget.value
                }}
              >
                <option value="">none</option>
                {presets.map(({ description, name }) => (
                  <option key={name} value={name} title={description ?? ""}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
          )}
          <label>
            Session
            <input
              value={session.value}
              maxLength={200}
              placeholder="a new one"
              onInput={(event) => {
                session.value = event.currentTarget.value
              }}
            />
          </label>
          <button type="submit" class="primary" disabled={isBusy.value}>
            {isBusy.value ? "Asking…" : "Ask"}
          </button>
        </div>
        <details>
          <summary>More of the request</summary>
          <label>
            JSON of agents, mcp_servers, preferences and what else <code>POST /plan</code> takes
            <textarea
              class="code"
              rows={5}
              spellcheck={false}
              value={more.value}
              placeholder={'{"agents": [{"name": "rigger", "endpoint": "https://rigger.example/"}]}'}
              onInput={(event) => {
                more.value = event.currentTarget.value
              }}
            />
          </label>
        </details>
        {problem.value === undefined ? null : (
          <p class="problem" role="alert">
            {problem.value}
          </p>
        )}
      </form>
      {presets.some(({ name }) => name === demo) ? (
        <section aria-labelledby="samples">
          <h2 id="samples">Try the demo</h2>
          <ul class="samples">
            {samples.map(({ request, shows, title }) => (
              <li key={title}>
                <button type="button" disabled={isBusy.value} onClick={() => void ask({ request: surviving(request) })}>
                  <strong>{title}</strong>
                  <span class="dim">{shows}</span>
                </button>
              </li>
            ))}
          </ul>
        </section>
      ) : null}
    </>
  )
}

const Running = () => {
  const { data, error } = useResource(
    "running",
    (signal) => bowline.plans.list({ state: ["queued", "running", "waiting"], limit: 50 }).page(undefined, { signal }),
    { every: 2_000 }
  )
  const plans = data.value?.plans
  return (
    <section aria-labelledby="running">
      <h2 id="running">Running now</h2>
      <Problem error={error.value} />
      {plans === undefined ? (
        error.value === undefined ? (
          <Loading />
        ) : null
      ) : plans.length === 0 ? (
        <Empty title="Nothing runs">
          <p>
            Ask something above, or look at <a href="/plans">all plans</a>.
          </p>
        </Empty>
      ) : (
        <PlanTable label="Plans that run now" plans={plans} />
      )}
    </section>
  )
}

/** The first page: ask, and what runs now. */
export const AskPage = () => {
  const hasPresets = config.value?.presets === true
  const { data } = useResource(`presets ${hasPresets}`, async (signal) =>
    hasPresets ? (await bowline.presets.list().page(undefined, { signal })).presets : []
  )
  return (
    <>
      <h1>Ask</h1>
      <AskForm presets={data.value ?? []} />
      <Running />
    </>
  )
}
