import { useSignal } from "@preact/signals"
import { isObject, type JsonObject } from "../call/FormValues.ts"
import { useValue, ValueFields } from "../call/ValueForm.tsx"
import { askJson, inWords } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { surviving } from "../plan/Request.ts"
import { useStart } from "../plan/StartPlan.ts"
import { here, setQuery } from "../route/Location.ts"
import { Loading, Problem } from "../shell/Notice.tsx"

interface OwnTool {
  readonly tool: string
  readonly skill: string
  readonly description: string
  readonly input_schema: JsonObject
}

const isTool = (value: unknown): value is OwnTool =>
  isObject(value) && typeof value["tool"] === "string" && typeof value["skill"] === "string"

const readTools = async (preset: string, name: string, signal: AbortSignal) => {
  const query = new URLSearchParams({ preset, name })
  const { error, tools } = await askJson(`/peers/tools?${query}`, { signal })
  return { tools: Array.isArray(tools) ? tools.filter(isTool) : [], error: typeof error === "string" ? error : null }
}

/** The preset of a request that names none. */
const usual = "default"

const CallForm = ({
  name,
  preset,
  tool
}: {
  readonly preset: string
  readonly name: string
  readonly tool: OwnTool
}) => {
  const value = useValue(tool.input_schema, {}, tool.tool)
  const problem = useSignal<string | undefined>(undefined)
  const isBusy = useSignal(false)
  const start = useStart((why) => {
    problem.value = why
  })
  const call = async () => {
    const read = value.read()
    if ("problem" in read) {
      problem.value = read.problem
      return
    }
    isBusy.value = true
    problem.value = undefined
    try {
      const request = {
        question: `Try ${tool.tool}`,
        ...(preset === usual ? {} : { preset }),
        call: { agent: name, skill: tool.skill, input: read.value }
      }
      await start(surviving(request))
    } catch (error) {
      problem.value = inWords(error)
    }
    isBusy.value = false
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        void call()
      }}
    >
      {tool.description === "" ? null : <p class="plain">{tool.description}</p>}
      <ValueFields label="Arguments" value={value} />
      <div class="actions">
        <button type="submit" class="primary" disabled={isBusy.value}>
          {isBusy.value ? "Calling…" : "Call it"}
        </button>
        <span class="dim">It is a real call, as a plan of your own that asks no model.</span>
      </div>
      {problem.value === undefined ? null : (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </form>
  )
}

/** Calls a tool of a configured peer or MCP server once. Which one is in the URL. */
export const TryTool = ({ name, preset }: { readonly preset: string; readonly name: string }) => {
  const { data, error } = useResource(`tools ${preset} ${name}`, (signal) => readTools(preset, name, signal))
  const known = data.value
  const chosen = known?.tools.find(({ tool }) => tool === here.value.query.get("tool")) ?? known?.tools[0]
  return (
    <section class="card try" aria-label={`Try a tool of ${name}`}>
      <header>
        <h2>
          Try a tool of {name} {preset === usual ? null : <span class="dim">of the preset {preset}</span>}
        </h2>
        <button type="button" class="quiet" onClick={() => setQuery({ try: null, tool: null })}>
          Close
        </button>
      </header>
      <Problem error={error.value ?? known?.error ?? undefined} />
      {known === undefined && error.value === undefined ? <Loading /> : null}
      {known?.error === null && known.tools.length === 0 ? <p class="dim">It has no tools.</p> : null}
      {chosen === undefined ? null : (
        <>
          <label>
            Tool
            <select value={chosen.tool} onChange={(event) => setQuery({ tool: event.currentTarget.value })}>
              {known?.tools.map(({ tool }) => (
                <option key={tool} value={tool}>
                  {tool}
                </option>
              ))}
            </select>
          </label>
          <CallForm key={chosen.tool} preset={preset} name={name} tool={chosen} />
        </>
      )}
    </section>
  )
}
