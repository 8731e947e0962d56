import { everything } from "@bowline/runtime/unstable/config/Permissions"
import type { Preset } from "@bowline/runtime/unstable/config/Presets"
import { actsForCaller } from "@bowline/domain/peer/Agent"
import type { Values } from "./setting/Settings.ts"
import type { ConfigFile } from "./file/ConfigFile.ts"
import { placedAuths } from "./file/PresetSettings.ts"
import { toPermission } from "./CallerRules.ts"
import { anyOf } from "./ConfiguredModels.ts"
import type { Misfit } from "./Misfit.ts"

/** A preset without what connects to its servers. */
export type ConfiguredPreset = Omit<Preset, "servers">

export const presetsOf = ({ presets }: ConfigFile): ReadonlyArray<ConfiguredPreset> =>
  presets.map(({ agents, description = null, instructions, name, permissions, preferences, webhooks }) => ({
    name,
    description,
    agents,
    preferences,
    instructions,
    webhooks,
    permission: permissions === undefined ? everything : toPermission(permissions)
  }))

/** The globs of permissions that no preset matches. A misspelt one would allow less, or deny less, than it says. */
export const presetMisfits = ({ name: file, permissions = {}, presets }: ConfigFile): ReadonlyArray<Misfit> => {
  const names = presets.map(({ name }) => name)
  const expected = `Expected a glob that matches a preset: ${names.join(", ")}`
  return Object.entries(permissions).flatMap(([caller, { presets: rules = {} }]) =>
    Object.entries(rules).flatMap(([rule, globs]) =>
      globs.flatMap((glob, at): ReadonlyArray<Misfit> => {
        if (names.some(anyOf([glob]))) return []
        return [
          {
            name: "apiKeys",
            place: { _tag: "File", file, path: ["permissions", caller, "presets", rule, at] },
            expected
          }
        ]
      })
    )
  )
}

/** The agents and servers that are called as the caller, and the accounts, where the gateway cannot keep what it needs for that. */
export const actingMisfits = (
  { accounts, accountsDiscovered, name: file, presets }: ConfigFile,
  { secretKey }: Values
): ReadonlyArray<Misfit> => {
  if (secretKey !== undefined) return []
  const expected =
    "Expected it with BOWLINE_SECRET_KEY (plans.secret_key in the file), which encrypts what acts as callers"
  const places = [
    ...placedAuths(presets).flatMap(({ auth, path }) => (actsForCaller(auth) ? [[...path, "auth", "type"]] : [])),
    ...Object.keys(accounts).map((name) => ["accounts", name]),
    ...(accountsDiscovered ? [["accounts_discovered"]] : [])
  ]
  return places.map((path): Misfit => ({ name: "secretKey", place: { _tag: "File", file, path }, expected }))
}
