import { all, type Instrument, type LabelValues } from "@bowline/runtime/unstable/telemetry/Instrument"
import { parser } from "@prometheus-io/lezer-promql"
import { assert } from "@effect/vitest"
import { nameOf } from "../../src/telemetry/PrometheusText.ts"

/** The name of a label in the text for Prometheus. */
export const labelOf = (name: string): string => name.replaceAll(".", "_")

type SyntaxNode = ReturnType<typeof parser.parse>["topNode"]

interface Matcher {
  readonly label: string
  readonly operator: string
  readonly value: string
}

interface Selector {
  readonly metric: string
  readonly matchers: ReadonlyArray<Matcher>
}

/** What an expression selects, and the labels of its result. Fails if it is no PromQL. */
export const parse = (expression: string) => {
  const selectors: Array<Selector> = []
  const grouping: Array<string> = []
  const text = ({ from, to }: { readonly from: number; readonly to: number }) => expression.slice(from, to)
  const matcherOf = (node: SyntaxNode): Matcher => {
    const [label, operator, value] = ["LabelName", "MatchOp", "StringLiteral"].map((part) => node.getChild(part))
    return { label: text(label ?? node), operator: text(operator ?? node), value: text(value ?? node).slice(1, -1) }
  }
  parser.parse(expression).iterate({
    enter: ({ node, type }) => {
      assert.isFalse(type.isError, `Not PromQL at ${node.from}: ${expression}`)
      if (type.name === "GroupingLabels") grouping.push(...node.getChildren("LabelName").map(text))
      if (type.name !== "VectorSelector") return
      const name = node.getChild("Identifier")
      const matchers = node.getChild("LabelMatchers")?.getChildren("UnquotedLabelMatcher").map(matcherOf) ?? []
      selectors.push({ metric: text(name ?? node), matchers })
    }
  })
  assert.isNotEmpty(selectors, expression)
  return { selectors, grouping }
}

/** The labels that Prometheus itself adds. */
const added: Readonly<Record<string, LabelValues>> = { instance: "any", job: ["bowline"] }

const labelsOf = ({ labels }: Instrument): Readonly<Record<string, LabelValues>> =>
  Object.fromEntries(Object.entries(labels).map(([name, values]) => [labelOf(name), values]))

/** The metrics that a scrape can have, with their labels. */
const known = new Map<string, Readonly<Record<string, LabelValues>>>([
  ["up", added],
  ...all().flatMap((instrument) => {
    const name = nameOf(instrument)
    const labels = { ...labelsOf(instrument), ...added }
    return instrument.type === "histogram"
      ? [
          [`${name}_bucket`, { ...labels, le: "the boundaries" }] as const,
          [`${name}_sum`, labels] as const,
          [`${name}_count`, labels] as const
        ]
      : [[name, labels] as const]
  })
])

/** The values of a label that a matcher lets pass. */
export const matching = ({ operator, value }: Matcher, values: ReadonlyArray<string>): ReadonlyArray<string> => {
  const isSame = (text: string) => (operator.endsWith("~") ? new RegExp(`^(?:${value})$`).test(text) : text === value)
  return values.filter((text) => isSame(text) !== operator.startsWith("!"))
}

/** Fails if the expression names a metric, a label or a value that does not exist. */
export const check = (expression: string): ReturnType<typeof parse> => {
  const parsed = parse(expression)
  const labels = new Set<string>()
  for (const { matchers, metric } of parsed.selectors) {
    const of = known.get(metric)
    assert.isDefined(of, `There is no metric ${metric}: ${expression}`)
    for (const label of Object.keys(of ?? {})) labels.add(label)
    for (const matcher of matchers) {
      const values: LabelValues | undefined = of?.[matcher.label]
      assert.isDefined(values, `${metric} has no label ${matcher.label}: ${expression}`)
      if (values === undefined || typeof values === "string") continue
      // Every alternative has to exist, too.
      for (const value of matcher.operator.endsWith("~") ? matcher.value.split("|") : [matcher.value]) {
        assert.include(values, value, `${matcher.label} is never that: ${expression}`)
      }
    }
  }
  for (const label of parsed.grouping) assert.isTrue(labels.has(label), `There is no label ${label}: ${expression}`)
  return parsed
}
