import { names } from "@bowline/runtime/unstable/telemetry/Warnings"
import { assert, describe, it } from "@effect/vitest"
import * as Yaml from "effect/encoding/Yaml"
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import "@bowline/storage-sql/SqlStore"
import "../../src/Gateway.ts"
import "../../src/worker/Supervisor.ts"
import { check, matching } from "./PromQl.ts"

const root = join(import.meta.dirname, "../../../..")
const read = (path: string) => readFileSync(join(root, path), "utf8")

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook: string }
}

const { groups } = Yaml.parse(read("docs/operations/grafana/alerts.yaml")) as {
  readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<Rule> }>
}
const rules = groups.flatMap((group) => group.rules)

describe("the alert rules", () => {
  it("are PromQL about metrics, labels and values that exist", () => {
    assert.isAbove(rules.length, 20)
    for (const { annotations, expr } of rules) {
      const { grouping } = check(expr)
      const { description, summary } = annotations
      for (const [, label = ""] of `${summary} ${description}`.matchAll(/\$labels\.(\w+)/g)) {
        // Without grouping, the labels of the metric are those of the alert.
        assert.isTrue(
          label === "instance" || label === "statistic" || grouping.includes(label),
          `${label} in ${summary}`
        )
      }
    }
  })

  it("say what happens, how bad it is, and which page helps", () => {
    const alerts = rules.map(({ alert }) => alert)
    assert.lengthOf(new Set(alerts), alerts.length)
    for (const { alert, annotations, labels } of rules) {
      assert.match(alert, /^Bowline[A-Z][A-Za-z]+$/)
      assert.include(["critical", "warning"], labels.severity, alert)
      assert.isAbove(annotations.summary.length, 10, alert)
      assert.isAbove(annotations.description.length, 10, alert)
      assert.isTrue(existsSync(join(root, annotations.runbook)), `${alert}: ${annotations.runbook}`)
    }
  })

  it("fire when they should, and only then, as promtool says where the machine has it", ({ skip }) => {
    const { error, output, status } = spawnSync("promtool", ["test", "rules", "alerts.test.yaml"], {
      cwd: join(root, "docs/operations/grafana")
    })
    if (error !== undefined)
      skip("This machine has no promtool, which is in Debian's package prometheus: the workflow runs it.")
    assert.strictEqual(status, 0, output.join(""))
  })

  it("are all in the unit test of a gateway with every trouble", () => {
    const fired = Array.from(
      read("docs/operations/grafana/alerts.test.yaml").matchAll(/labels: '\{alertname="(\w+)"\}'/g),
      ([, name = ""]) => name
    )
    assert.sameMembers(
      fired,
      rules.map(({ alert }) => alert)
    )
  })

  it("watch the counter of every warning", () => {
    const all = [...names, "other"]
    const watched = rules
      .flatMap(({ expr }) => check(expr).selectors)
      .filter(({ metric }) => metric === "bowline_warnings_total")
      .flatMap(({ matchers }) =>
        matchers.filter(({ label }) => label === "warning").flatMap((matcher) => matching(matcher, all))
      )
    assert.deepStrictEqual(
      all.filter((name) => !watched.includes(name)),
      []
    )
  })

  it("have a page that names the warnings they watch", () => {
    for (const { annotations, expr } of rules) {
      const { selectors } = check(expr)
      const matchers = selectors
        .flatMap((selector) => selector.matchers)
        .filter(({ label, operator }) => label === "warning" && !operator.startsWith("!"))
      const page = read(annotations.runbook)
      for (const name of matchers.flatMap((matcher) => matching(matcher, names))) {
        assert.include(page, `\`${name}\``, `${annotations.runbook} does not name ${name}`)
      }
    }
  })
})

interface Panel {
  readonly type: string
  readonly title: string
  readonly datasource?: { readonly uid: string }
  readonly targets?: ReadonlyArray<{ readonly expr: string; readonly legendFormat: string }>
}

describe("the dashboard", () => {
  const dashboard = JSON.parse(read("docs/operations/grafana/bowline.json")) as {
    readonly id?: number
    readonly schemaVersion: number
    readonly panels: ReadonlyArray<Panel>
  }
  const panels = dashboard.panels.filter(({ type }) => type !== "row")

  it("asks PromQL about metrics and labels that exist", () => {
    assert.isAbove(panels.length, 20)
    for (const { targets = [], title } of panels) {
      assert.isNotEmpty(targets, title)
      for (const { expr, legendFormat } of targets) {
        const { grouping } = check(expr.replaceAll("$__rate_interval", "5m"))
        for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
          assert.isTrue(["instance", "statistic", ...grouping].includes(label), `${label} in ${title}`)
        }
      }
    }
  })

  it("can be imported anywhere: it has a variable for the data source, and no id", () => {
    assert.isUndefined(dashboard.id)
    assert.strictEqual(dashboard.schemaVersion, 39)
    assert.deepStrictEqual(Array.from(new Set(panels.map(({ datasource }) => datasource?.uid))), ["${datasource}"])
  })
})
