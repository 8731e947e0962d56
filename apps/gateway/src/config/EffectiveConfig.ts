import { Duration, Record } from "effect"
import type { CallerKey } from "../setting/CallerKeys.ts"
import type { ConfigFile } from "../file/ConfigFile.ts"
import { type Section, sections } from "../file/FileSettings.ts"
import type { ProviderSettings } from "../file/ProviderSettings.ts"
import type { Values } from "../setting/Settings.ts"
import type { Environment } from "./Sources.ts"

const redacted = "<redacted>"

const callers = (keys: ReadonlyArray<CallerKey>) =>
  Record.map(
    Object.groupBy(keys, ({ name }) => name),
    (keys = []) => keys.map(() => redacted)
  )

const secrets: ReadonlySet<keyof Values> = new Set(["DATABASE_URL", "BOWLINE_DID_SEED", "BOWLINE_SECRET_KEY"])

/** A setting as it is written, or its default. */
const shown = (name: keyof Values, values: Values, variables: Environment) => {
  if (name === "BOWLINE_API_KEYS") return callers(values[name])
  const text = variables[name] ?? ""
  if (text !== "") return secrets.has(name) ? redacted : text
  const value = values[name]
  if (Duration.isDuration(value)) return Duration.format(value)
  if (typeof value === "function") return []
  return value ?? null
}

/** A query may have a key in it, as may what stands in front of the host. */
const withoutSecrets = (url: string): string => {
  const { origin, pathname } = new URL(url)
  return origin + pathname
}

/** What holds, in the shape of the file, for people to read. Secrets are not in it. */
export const describe = (
  values: Values,
  variables: Environment,
  providers: ReadonlyArray<ProviderSettings>,
  file: ConfigFile
) => ({
  ...Object.fromEntries(
    Object.entries<Section>(sections).map(([section, keys]) => [
      section,
      Record.map(keys, (name) => shown(name, values, variables))
    ])
  ),
  providers: providers.map(({ apiKeys, baseUrl, headers, name, wire }) => ({
    name,
    wire,
    base_url: withoutSecrets(baseUrl),
    api_keys: apiKeys.map(() => redacted),
    headers: Record.map(headers, () => redacted),
    models: file.providers.find((provider) => provider.name === name)?.models ?? {},
    timeouts: file.providers.find((provider) => provider.name === name)?.timeouts ?? {}
  })),
  models: file.models,
  peers: {
    hosts: Object.fromEntries(
      Array.from(file.peerTls, ([host, tls]) => [
        host,
        { tls: Object.fromEntries(Object.keys(tls).map((key) => [key, redacted])) }
      ])
    )
  }
})
