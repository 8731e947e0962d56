import { assert, describe, it } from "@effect/vitest"
import { Ajv } from "ajv"
import { Effect, Record } from "effect"
import * as Yaml from "effect/encoding/Yaml"
import { writeFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { clientSettings, table } from "../../src/config/setting/Settings.ts"
import { read } from "./Dockerfile.ts"
import { program, render } from "./Helm.ts"
import { byKind, podOf } from "./Manifests.ts"

const values = Yaml.parse(read("charts/bowline/values.yaml")) as Readonly<Record<string, unknown>>
const validate = new Ajv({ strict: false, allErrors: true }).compile(
  JSON.parse(read("charts/bowline/values.schema.json"))
)
const secrets = [...Object.values(table), clientSettings.apiKey].flatMap(({ secret, variable }) =>
  secret === true && variable !== undefined ? [variable] : []
)

/** Everything that can be switched on, with two replicas. */
const everything = Yaml.parse(read("charts/bowline/ci/everything-values.yaml")) as Readonly<
  Record<string, Readonly<Record<string, unknown>>>
>

describe("the values of the chart", () => {
  it("fit their schema, which knows each of them", () => {
    assert.isTrue(validate(values), JSON.stringify(validate.errors))
    assert.isTrue(validate({ ...values, ...everything }), JSON.stringify(validate.errors))
    assert.sameMembers(
      Object.keys(values),
      Object.keys((validate.schema as { readonly properties: object }).properties).filter((name) => name !== "global")
    )
  })

  it.each([
    ["/replicas", { replicas: "2" }],
    ["/replicas", { replicas: -1 }],
    ["", { replica: 2 }],
    ["/secrets/DATABASE_URL", { secrets: { DATABASE_URL: "postgres://db/bowline" } }],
    ["/secrets/DATABASE_URL", { secrets: { DATABASE_URL: { name: "db", value: "postgres://db/bowline" } } }],
    ["/settings/BOWLINE_MAX_PLANS", { settings: { BOWLINE_MAX_PLANS: 1000 } }],
    ["/settings", { settings: { "max-plans": "1000" } }],
    ["/recipes", { recipes: { "../refund.md": "" } }],
    ["/volume/size", { volume: { size: "much" } }],
    ["/ingress/host", { ingress: { enabled: true, host: "" } }],
    ["/ingress/annotations/a", { ingress: { annotations: { a: true } } }],
    ["/httpRoute/parentRefs", { httpRoute: { enabled: true, parentRefs: [] } }],
    ["/podSpec", { podSpec: { hostNetwork: true } }]
  ])("are refused with their place: %s of %j", (place, wrong) => {
    assert.isFalse(validate(wrong))
    assert.include(
      (validate.errors ?? []).map(({ instancePath }) => instancePath),
      place
    )
  })
})

describe("the manifests without Helm", () => {
  const manifests = byKind(read("charts/bowline.yaml"))
  const pod = podOf(manifests)

  it("have the version of the packages, as the chart does", () => {
    const { version } = JSON.parse(read("apps/gateway/package.json")) as { readonly version: string }
    const chart = Yaml.parse(read("charts/bowline/Chart.yaml")) as Readonly<Record<string, unknown>>
    assert.deepStrictEqual([chart["version"], chart["appVersion"]], [version, version])
    assert.isTrue(pod.containers[0].image.endsWith(`:${version}`), pod.containers[0].image)
  })

  it("let a gateway shut down: the grace, and 15 s more", () => {
    const grace = pod.containers[0].env.find(({ name }) => name === table.shutdownGrace.variable)?.value ?? ""
    assert.strictEqual(grace, table.shutdownGrace.default)
    assert.strictEqual(pod.terminationGracePeriodSeconds, parseInt(grace) + 15)
  })
})

describe.skipIf(program === undefined)("the chart", () => {
  it("renders its defaults as the manifests without Helm say", () => {
    const [, , ...lines] = read("charts/bowline.yaml").split("\n")
    assert.strictEqual(render({}), lines.join("\n"))
  })

  it.effect("configures a gateway that starts, with every variable known and in effect", () =>
    Effect.gen(function* () {
      const folder = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(join(tmpdir(), "bowline-chart-"))),
        (path) => Effect.promise(() => rm(path, { recursive: true }))
      )
      const manifests = byKind(
        render({ ...everything, settings: { ...everything.settings, MODEL: "gpt-5-mini" } }, "shop")
      )
      const files = manifests.get("ConfigMap")?.data ?? {}
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
      assert.deepStrictEqual(files["refund.md"], everything["recipes"]?.["refund.md"])

      const secret = {
        BOWLINE_API_KEYS: "ann=key-of-ann",
        DATABASE_URL: "postgres://db/bowline",
        BOWLINE_SECRET_KEY: Buffer.alloc(32, 1).toString("base64"),
        OPENAI_API_KEY: "key"
      }
      const { env, volumeMounts } = podOf(manifests).containers[0]
      const { mountPath = "" } = volumeMounts.find(({ name }) => name === "files") ?? {}
      assert.sameMembers(
        env.flatMap(({ name, valueFrom }) => (valueFrom?.secretKeyRef === undefined ? [] : [name])),
        Object.keys(secret)
      )
      const variables = Object.fromEntries(
        env.map(
          ({ name, value }) => [name, value?.replace("$(POD_IP)", "10.0.0.7").replace(mountPath, folder)] as const
        )
      )
      const config = yield* fromEnvironment(
        { ...Record.filter(variables, (value) => value !== undefined), ...secret, BOWLINE_HOST: "0.0.0.0" },
        false
      )
      assert.deepStrictEqual([...config.ignored, ...config.overruled], [])
      assert.strictEqual(config.database._tag, "Postgres")
      assert.strictEqual(podOf(manifests).terminationGracePeriodSeconds, 615)
    }).pipe(Effect.scoped)
  )

  it("joins its objects: what one names, another one is", () => {
    const manifests = byKind(render(everything, "shop"))
    assert.sameMembers(Array.from(manifests.keys()), [
      "ConfigMap",
      "Deployment",
      "HTTPRoute",
      "Ingress",
      "NetworkPolicy",
      "PodDisruptionBudget",
      "PrometheusRule",
      "Service",
      "ServiceMonitor"
    ])
    const of = (kind: string) => manifests.get(kind)?.spec ?? {}
    const labels = manifests.get("Deployment")?.spec.template?.metadata.labels
    assert.deepStrictEqual(of("Service")["selector"], labels)
    for (const kind of ["Deployment", "PodDisruptionBudget", "ServiceMonitor"]) {
      assert.deepStrictEqual(of(kind)["selector"], { matchLabels: labels }, kind)
    }
    assert.deepStrictEqual(of("NetworkPolicy")["podSelector"], { matchLabels: labels })
    assert.deepInclude(of("PodDisruptionBudget"), { maxUnavailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow" })
    assert.deepInclude(manifests.get("Service")?.metadata.labels, labels ?? {})
    // The alerts ask for the job `bowline`.
    assert.strictEqual(of("ServiceMonitor")["jobLabel"], "app.kubernetes.io/name")
    assert.strictEqual(labels?.["app.kubernetes.io/name"], "bowline")

    const service = manifests.get("Service")?.metadata.name
    const [port] = of("Service")["ports"] as ReadonlyArray<{ readonly name: string; readonly port: number }>
    assert.deepStrictEqual(of("Ingress")["rules"], [
      {
        host: "bowline.example",
        http: {
          paths: [
            { path: "/", pathType: "Prefix", backend: { service: { name: service, port: { name: port?.name } } } }
          ]
        }
      }
    ])
    assert.deepStrictEqual(of("HTTPRoute")["rules"], [
      { backendRefs: [{ name: service, port: port?.port }], timeouts: { request: "0s", backendRequest: "0s" } }
    ])
    const { annotations = {} } = manifests.get("Ingress")?.metadata ?? {}
    for (const [controller, off] of [
      ["nginx.ingress.kubernetes.io", "off"],
      ["nginx.org", "False"]
    ]) {
      assert.strictEqual(annotations[`${controller}/proxy-buffering`], off)
      assert.isAtLeast(parseInt(annotations[`${controller}/proxy-read-timeout`] ?? ""), 3600)
    }

    const pod = podOf(manifests)
    assert.deepStrictEqual(
      pod.volumes.map(({ name }) => name),
      pod.containers[0].volumeMounts.map(({ name }) => name)
    )
    assert.include(
      pod.volumes.map(({ configMap }) => configMap?.name),
      manifests.get("ConfigMap")?.metadata.name
    )
    assert.deepStrictEqual(of("PrometheusRule"), Yaml.parse(read("docs/operations/grafana/alerts.yaml")) as object)
  })

  it("takes the values that the page of deployments shows", () => {
    const [, block = ""] = /```yaml \(values of the chart\)\n([^]*?)```/.exec(read("docs/operations/deploy.md")) ?? []
    const manifests = byKind(render(Yaml.parse(block) as object))
    assert.strictEqual(manifests.get("Deployment")?.spec.replicas, 2)
    assert.includeMembers(Array.from(manifests.keys()), [
      "Ingress",
      "NetworkPolicy",
      "ServiceMonitor",
      "PrometheusRule"
    ])
  })

  it("updates replicas one by one, and one process with its volume by an end and a start", () => {
    const replicas = byKind(render(everything))
    assert.deepStrictEqual(replicas.get("Deployment")?.spec.strategy, {
      type: "RollingUpdate",
      rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
    })
    const one = byKind(render({}))
    assert.deepStrictEqual(one.get("Deployment")?.spec.strategy, { type: "Recreate" })
    const claim = one.get("PersistentVolumeClaim")?.metadata
    assert.deepStrictEqual(claim?.annotations, { "helm.sh/resource-policy": "keep" })
    assert.include(
      podOf(one).volumes.map(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName),
      claim?.name
    )
  })

  it("rolls the pods when the configuration or a recipe changes", () => {
    const sums = [everything, { ...everything, config: {} }, { ...everything, recipes: {} }].map(
      (values) => /checksum\/files: (\w{64})/.exec(render(values))?.[1] ?? ""
    )
    assert.lengthOf(new Set(sums), 3)
  })

  it.each([
    ["replicas", "secrets.DATABASE_URL", { replicas: 2 }],
    ["settings.BOWLINE_PORT", "3774", { settings: { BOWLINE_PORT: "80" } }],
    ["settings.BOWLINE_SHUTDOWN_GRACE", "shutdownGraceSeconds", { settings: { BOWLINE_SHUTDOWN_GRACE: "1m" } }],
    ["settings.FOO", "secrets.FOO", { settings: { FOO: "a" }, secrets: { FOO: { name: "a" } } }],
    ["serviceMonitor.credentials", "BOWLINE_METRICS_PUBLIC", { serviceMonitor: { enabled: true } }],
    ["serviceMonitor.credentials.key", "Secret", { serviceMonitor: { enabled: true, credentials: { name: "a" } } }],
    ["/replicas", "integer", { replicas: "2" }]
  ])("refuses %s by its name, with what to do: %s", (place, fix, wrong) => {
    const text = render(wrong)
    assert.include(text, place)
    assert.include(text, fix)
    assert.notInclude(text, "kind: Deployment")
  })

  it("takes every secret by reference alone", () => {
    assert.isAbove(secrets.length, 10)
    const template = read("charts/bowline/templates/_helpers.tpl")
    const [, list = ""] = /\$secrets := list (.*?) -}}/.exec(template) ?? []
    assert.sameMembers(
      Array.from(list.matchAll(/"(\w+)"/g), ([, name = ""]) => name),
      secrets
    )
    assert.include(render({ settings: { OPENAI_API_KEY: "sk-1" } }), "Name its Secret in secrets.OPENAI_API_KEY")
  })
})
