import { everything } from "@bowline/runtime/unstable/config/Permissions"
import type { Preset } from "@bowline/runtime/unstable/config/Presets"
import type { ConfigFile } from "./file/ConfigFile.ts"
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
