import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { send } from "../http/RunningGateway.ts"

export type Labels = Readonly<Record<string, string>>

interface Sample {
  readonly name: string
  readonly labels: Labels
  readonly value: number
}

interface Family {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly samples: ReadonlyArray<Sample>
}

const number = (text: string): number => {
  assert.match(text, /^(NaN|[+-]Inf|-?\d+(\.\d+)?(e[+-]?\d+)?)$/)
  return Number(text.replace("Inf", "Infinity"))
}

const unescaped = (text: string): string => text.replaceAll(/\\(.)/g, (_, char) => (char === "n" ? "\n" : String(char)))

const toSample = (line: string): Sample => {
  const [, name = "", inside = "", value = ""] =
    /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)$/.exec(line) ??
    assert.fail(`Not a sample: ${line}`)
  const pairs = Array.from(inside.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g), ([, label = "", text = ""]) => [
    label,
    unescaped(text)
  ])
  const labels = Object.fromEntries(pairs) as Labels
  assert.lengthOf(Object.keys(labels), pairs.length, `a label twice: ${line}`)
  return { name, labels, value: number(value) }
}

const spelled = (labels: Labels): ReadonlyArray<string> =>
  Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .toSorted((one, other) => (one < other ? -1 : 1))

/** A sample of a histogram belongs to the series with its labels, but for `le`. */
const keyOf = ({ labels }: Sample): string =>
  JSON.stringify(spelled(labels).filter((label) => !label.startsWith("le=")))

/** Checks that the buckets of each series go up to `+Inf`, and hold as many as its `_count`. */
const checkHistogram = ({ name, samples }: Family): void => {
  for (const series of Object.values(Object.groupBy(samples, keyOf))) {
    const of = (suffix: string) => series?.filter((sample) => sample.name === name + suffix) ?? []
    const bounds = of("_bucket").map(({ labels }) => number(labels["le"] ?? ""))
    const counts = of("_bucket").map(({ value }) => value)
    const ascending = (values: ReadonlyArray<number>) => values.toSorted((one, other) => one - other)
    assert.deepStrictEqual(bounds, ascending(Array.from(new Set(bounds))), name)
    assert.deepStrictEqual(counts, ascending(counts), name)
    assert.strictEqual(bounds.at(-1), Infinity, name)
    assert.deepStrictEqual([counts.at(-1), of("_sum").length], [of("_count")[0]?.value, 1], name)
  }
}

/** Reads the text format 0.0.4 of Prometheus, and takes nothing that its specification does not allow. */
export const parse = (text: string): ReadonlyMap<string, Family> => {
  const families = new Map<string, Family & { samples: Array<Sample> }>()
  assert.isTrue(text.endsWith("\n"))
  let help: readonly [name: string, text: string] | undefined
  let family: (Family & { samples: Array<Sample> }) | undefined
  for (const line of text.slice(0, -1).split("\n")) {
    const [, keyword, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (keyword === "HELP") {
      help = [name, unescaped(rest)]
    } else if (keyword === "TYPE") {
      assert.isFalse(families.has(name), `${name} has two types`)
      assert.strictEqual(help?.[0], name, `${name} has no help`)
      assert.include(["counter", "gauge", "histogram"], rest)
      family = { name, type: rest, help: help?.[1] ?? "", samples: [] }
      families.set(name, family)
    } else {
      const sample = toSample(line)
      const suffix = family?.type === "histogram" ? /^(_bucket|_sum|_count)$/ : /^$/
      assert.match(sample.name.slice(family?.name.length), suffix)
      assert.isTrue(sample.name.startsWith(family?.name ?? "?"), line)
      family?.samples.push(sample)
    }
  }
  for (const known of families.values()) {
    const ids = known.samples.map((sample) => JSON.stringify([sample.name, ...spelled(sample.labels)]))
    assert.lengthOf(new Set(ids), ids.length, `${known.name} has a series twice`)
    if (known.type === "histogram") checkHistogram(known)
  }
  return families
}

/** What a gateway measures now. */
export const scrape = (url: string) =>
  Effect.map(send(`${url}/metrics`), ({ headers, status, text }) => {
    assert.strictEqual(status, 200, text)
    assert.strictEqual(headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
    const families = parse(text)
    return {
      families,
      /** The sum of all samples of this name that have these labels, or undefined if there is none. */
      value: (name: string, labels: Labels = {}): number | undefined => {
        const found = [...families.values()]
          .flatMap(({ samples }) => samples)
          .filter((sample) => sample.name === name)
          .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
        return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0)
      }
    }
  })
