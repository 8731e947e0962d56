import * as Yaml from "effect/encoding/Yaml"

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}

interface Variable {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: { readonly secretKeyRef?: { readonly name: string; readonly key: string } }
}

interface Container {
  readonly image: string
  readonly ports: ReadonlyArray<{ readonly name: string; readonly containerPort: number }>
  readonly env: ReadonlyArray<Variable>
  readonly startupProbe: Probe
  readonly livenessProbe: Probe
  readonly readinessProbe: Probe
  readonly volumeMounts: ReadonlyArray<{ readonly name: string; readonly mountPath: string }>
}

export interface PodSpec {
  readonly terminationGracePeriodSeconds: number
  readonly containers: readonly [Container]
  readonly volumes: ReadonlyArray<{
    readonly name: string
    readonly configMap?: { readonly name: string }
    readonly persistentVolumeClaim?: { readonly claimName: string }
  }>
}

/** What tests read of an object. Kinds without a field do not have it. */
export interface Manifest {
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly labels: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly data?: Readonly<Record<string, string>>
  readonly spec: {
    readonly replicas?: number
    readonly strategy?: { readonly type: string; readonly rollingUpdate?: object }
    readonly selector?: unknown
    readonly template?: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> }
      readonly spec: PodSpec
    }
    readonly [field: string]: unknown
  }
}

/** The objects of a stream of YAML documents, by their kinds. */
export const byKind = (text: string): ReadonlyMap<string, Manifest> =>
  new Map(
    text
      .split(/^---$/m)
      .map((document) => Yaml.parse(document) as Manifest | null)
      .flatMap((manifest) => (manifest === null ? [] : [[manifest.kind, manifest] as const]))
  )

/** The pod of the Deployment. */
export const podOf = (manifests: ReadonlyMap<string, Manifest>): PodSpec => {
  const template = manifests.get("Deployment")?.spec.template
  if (template === undefined) throw new Error("There is no Deployment")
  return template.spec
}
