import type { PlanView } from "@bowline/client"
import { validationOf } from "@bowline/runtime/unstable/tool/SchemaChecks"
import { Option, Predicate, Schema } from "effect"

/** One thing that is looked at: whether it passes, how good it is (0 to 1), and why. */
export interface Verdict {
  readonly pass: boolean
  readonly score?: number | undefined
  readonly why: string
}

const Texts = Schema.Union([Schema.String, Schema.Array(Schema.String)])
const Call = Schema.Struct({ tool: Schema.String, arguments: Schema.optionalKey(Schema.Json) })

/**
 * What is expected of a plan. `contains`: texts of its answer. `matches`: a regular expression of JavaScript. `output`: a JSON Schema of the answer as JSON. `calls`: calls that it has made, in any order; of
 * an object among the arguments the fields that are named count. `rubric`: what a judge is told besides.
 */
export const Expectation = Schema.Struct({
  contains: Schema.optionalKey(Texts),
  matches: Schema.optionalKey(Schema.String),
  output: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  calls: Schema.optionalKey(Schema.Array(Call)),
  max_cost_usd: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  max_steps: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  rubric: Schema.optionalKey(Schema.String)
})
export type Expectation = typeof Expectation.Type

const patternOf = Option.liftThrowable((text: string) => new RegExp(text, "u"))
const parse = Option.liftThrowable((text: string): unknown => JSON.parse(text))

/** Why nothing can be compared with it, if so. */
export const problemOf = ({ matches, output }: Expectation): string | undefined => {
  if (matches !== undefined && Option.isNone(patternOf(matches))) {
    return `expect.matches: Expected a regular expression of JavaScript, got ${matches}`
  }
  if (output === undefined) return undefined
  const verdict = validationOf(JSON.stringify(output)).check(null)
  return verdict._tag === "Unusable" ? `expect.output: Expected a JSON Schema. ${verdict.reason}` : undefined
}

/** Whether all that is expected is there: of objects these fields, of lists all entries. */
const has = (value: unknown, expected: unknown): boolean => {
  if (Array.isArray(expected)) {
    return (
      Array.isArray(value) && value.length === expected.length && expected.every((one, index) => has(value[index], one))
    )
  }
  if (!Predicate.isObject(expected)) return value === expected
  return (
    Predicate.isObject(value) && Object.entries(expected).every(([name, one]) => has(Reflect.get(value, name), one))
  )
}

/** Each call counts once. */
const missingCalls = ({ tasks }: PlanView, calls: NonNullable<Expectation["calls"]>): ReadonlyArray<string> => {
  const left = [...tasks]
  const isMissing = ({ arguments: given, tool }: typeof Call.Type): boolean => {
    const at = left.findIndex((task) => task.tool === tool && (given === undefined || has(task.input, given)))
    return at < 0 || left.splice(at, 1).length === 0
  }
  return calls
    .filter(isMissing)
    .map(({ arguments: given, tool }) =>
      given === undefined ? `it has not called ${tool}` : `it has not called ${tool} with ${JSON.stringify(given)}`
    )
}

const short = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}…` : text)

/** What is not as it is expected: nothing, if the plan passes. */
export const failuresOf = (view: PlanView, expect: Expectation): ReadonlyArray<Verdict> => {
  const whys: Array<string> = []
  const { contains = [], matches, max_cost_usd, max_steps, output } = expect
  for (const text of [contains].flat()) {
    if (!view.text.includes(text)) whys.push(`it does not contain ${JSON.stringify(text)}: ${short(view.text)}`)
  }
  if (matches !== undefined && Option.exists(patternOf(matches), (pattern) => !pattern.test(view.text))) {
    whys.push(`it does not match /${matches}/: ${short(view.text)}`)
  }
  if (output !== undefined) {
    const { outcome } = view
    const told = outcome !== null && "final" in outcome ? outcome.final.output : undefined
    const value = told === undefined ? parse(view.text) : Option.some<unknown>(told)
    if (Option.isNone(value)) whys.push(`its answer is not JSON: ${short(view.text)}`)
    else {
      const verdict = validationOf(JSON.stringify(output)).check(value.value)
      if (verdict._tag === "Wrong") whys.push(`its answer does not match the schema: ${verdict.issues.join("; ")}`)
    }
  }
  whys.push(...missingCalls(view, expect.calls ?? []))
  const { costUsd, steps } = view
  if (max_steps !== undefined && steps.length > max_steps) whys.push(`it took ${steps.length} steps, not ${max_steps}`)
  if (max_cost_usd !== undefined && costUsd === null) whys.push("nobody knows the price of its model")
  if (max_cost_usd !== undefined && costUsd !== null && costUsd > max_cost_usd) {
    whys.push(`it cost ${costUsd} US dollars, not ${max_cost_usd}`)
  }
  return whys.map((why) => ({ pass: false, why }))
}
