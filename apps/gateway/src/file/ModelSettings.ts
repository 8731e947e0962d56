import * as ModelTable from "@bowline/runtime/provider/ModelTable"
import type { FileModel, FileProvider } from "./FileSchema.ts"

const toModel = ({ context_window, output_limit, price, reasoning }: FileModel): Partial<ModelTable.Model> => ({
  ...(context_window === undefined ? {} : { contextWindow: context_window }),
  ...(output_limit === undefined ? {} : { outputLimit: output_limit }),
  ...(reasoning === undefined ? {} : { isReasoning: reasoning }),
  ...(price === undefined ? {} : { price })
})

/** What the file says of models: under `models`, and of one provider's under that provider, which wins. */
export const fromFile = (
  models: { readonly [name: string]: FileModel },
  providers: ReadonlyArray<FileProvider>
): ModelTable.ModelOverrides =>
  ModelTable.overrides([
    ...Object.entries(models).map(([name, model]) => [name, toModel(model)] as const),
    ...providers.flatMap(({ models = {}, name }) =>
      Object.entries(models).map(([id, model]) => [`${name}/${id}`, toModel(model)] as const)
    )
  ])
