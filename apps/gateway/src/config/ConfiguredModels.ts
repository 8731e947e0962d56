import * as ModelTable from "@bowline/runtime/unstable/provider/ModelTable"
import { Glob } from "effect"
import { demoModel, demoProvider } from "./DemoMode.ts"
import type { ConfigFile } from "./file/ConfigFile.ts"
import type { FileModel, FileProvider } from "./file/FileSchema.ts"
import { modelsOf, type ProviderSettings } from "./file/ProviderSettings.ts"
import { placeOf, type Sources } from "./setting/ReadSettings.ts"
import type { Values } from "./setting/Settings.ts"
import type { Misfit } from "./Misfit.ts"

/** Tells whether a name matches one of the globs. `*` alone matches every name, with `/` or without. */
export const anyOf = (globs: ReadonlyArray<string>): ((name: string) => boolean) => {
  const patterns = globs.map((glob) => Glob.make(glob === "*" ? "**" : glob, { dot: true }))
  return (name) => patterns.some(Glob.match(name))
}

const modelNames = ["model", "fallbackModels", "summaryModel"] as const

/** The models that plans use and may name, and a misfit for each setting whose model no provider offers. */
export const choose = (
  values: Values,
  sources: Sources,
  providers: ReadonlyArray<ProviderSettings>,
  file: ConfigFile
) => {
  const { allowedModels, fallbackModels, model = providers[0]?.defaultModel ?? demoModel, summaryModel } = values
  const configured = new Set([model, ...fallbackModels, ...file.providers.flatMap(modelsOf)])
  const isNamed = allowedModels === undefined ? (name: string) => configured.has(name) : anyOf(allowedModels)
  const names = providers.length === 0 ? [demoProvider] : providers.map(({ name }) => name)
  const isOffered = (name: string) =>
    names.some((provider) => name.length > provider.length + 1 && name.startsWith(`${provider}/`))
  const named = [
    ...(summaryModel === undefined ? [] : [summaryModel]),
    ...(allowedModels ?? []).filter((name) => !/[*?[\]{}!]/.test(name)),
    ...file.presets.flatMap(({ preferences }) => preferences.model ?? [])
  ]
  const asked = { model, fallbackModels, summaryModel: summaryModel ?? [] }
  const expected = `Expected models of a provider that is configured: ${names.join(", ")}`
  return {
    model,
    fallbackModels,
    summaryModel,
    /** All that the configuration names, also those that callers may not. */
    configured: configured.union(new Set(named)),
    allows: (name: string) => isOffered(name) && isNamed(name),
    misfits: [
      ...modelNames.flatMap((name): ReadonlyArray<Misfit> =>
        [asked[name]].flat().every(isOffered) ? [] : [{ name, place: placeOf(sources, name), expected }]
      ),
      ...file.presets.flatMap(({ modelPath: path, preferences }): ReadonlyArray<Misfit> => {
        if (preferences.model === undefined || isOffered(preferences.model)) return []
        return [{ name: "model", place: { _tag: "File", file: file.name, path }, expected }]
      })
    ]
  }
}

const toModel = ({
  context_window,
  input,
  max_image_bytes,
  max_pdf_pages,
  output_limit,
  price,
  reasoning,
  refuses,
  structured_output
}: FileModel): Partial<ModelTable.Model> => ({
  ...(context_window === undefined ? {} : { contextWindow: context_window }),
  ...(output_limit === undefined ? {} : { outputLimit: output_limit }),
  ...(input === undefined ? {} : { input }),
  ...(max_image_bytes === undefined ? {} : { maxImageBytes: max_image_bytes }),
  ...(max_pdf_pages === undefined ? {} : { maxPdfPages: max_pdf_pages }),
  ...(reasoning === undefined ? {} : { isReasoning: reasoning }),
  ...(structured_output === undefined ? {} : { structuredOutput: structured_output }),
  ...(refuses === undefined ? {} : { refuses }),
  ...(price === undefined ? {} : { price })
})

/** What the file sets of models. A provider's own entry wins over the file's `models`. */
export const overridesOf = (
  models: { readonly [name: string]: FileModel },
  providers: ReadonlyArray<Pick<FileProvider, "name" | "models">>
): ModelTable.ModelOverrides =>
  ModelTable.overrides([
    ...Object.entries(models).map(([name, model]) => [name, toModel(model)] as const),
    ...providers.flatMap(({ models = {}, name }) =>
      Object.entries(models).map(([id, model]) => [`${name}/${id}`, toModel(model)] as const)
    )
  ])
