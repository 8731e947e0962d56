import { Effect, Layer, Result } from "effect"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { type Recipe, Recipes, type RecipeTable } from "./Recipes.ts"
import * as RecipeText from "./RecipeText.ts"
import * as TextFile from "./TextFile.ts"

interface Options {
  readonly folder: string
  /** Whether the folder may be absent: then there are no recipes. */
  readonly isOptional: boolean
}

/** How many recipes there may be: the descriptions of all of them are in every prompt. */
const maxRecipes = 100

/** A file of the folder: what is in it now, and the last recipe of it that could be used. */
interface RecipeFile {
  readonly seen: TextFile.Seen
  readonly parsed: Result.Result<Recipe, string>
  readonly served: Recipe | undefined
}

/** Something that is wrong in the folder; `stamp` differs once the file was changed. */
interface Fault {
  readonly path: string
  readonly reason: string
  readonly stamp: string
}

/** What the folder gives: recipes, and faults. */
interface Content {
  readonly files: ReadonlyMap<string, RecipeFile>
  readonly recipes: RecipeTable
  readonly faults: ReadonlyArray<Fault>
}

const nothing: Content = { files: new Map(), recipes: new Map(), faults: [] }

/** The files in alphabetical order. Those that begin with a dot belong to editors and to the file system. */
const listFiles = (folder: string): Effect.Effect<ReadonlyArray<string>, string> =>
  Effect.map(
    TextFile.ask(() => readdir(folder)),
    (names) => names.filter((name) => name.endsWith(".md") && !name.startsWith(".")).sort()
  )

const lookAt = (folder: string, name: string, before: RecipeFile | undefined): Effect.Effect<RecipeFile> =>
  Effect.map(TextFile.look(join(folder, name), before?.seen, folder), (seen) =>
    seen === before?.seen
      ? before
      : { seen, parsed: Result.flatMap(seen.text, RecipeText.parse), served: before?.served }
  )

/**
 * Decides which recipe each file gives: what is in it, else the one that it gave before. A name belongs to the first file that has it, which
 * is the same one on every replica.
 */
const assign = (folder: string, looked: Iterable<readonly [file: string, RecipeFile]>): Content => {
  const files = new Map<string, RecipeFile>()
  const recipes = new Map<string, Recipe>()
  const faults: Array<Fault> = []
  const isFree = ({ name }: Recipe) => recipes.size < maxRecipes && !recipes.has(name)
  for (const [file, { parsed, seen, served: before }] of looked) {
    const served = [Result.getOrUndefined(parsed), before].find((recipe) => recipe !== undefined && isFree(recipe))
    files.set(file, { parsed, seen, served })
    if (served !== undefined) recipes.set(served.name, served)
    const reason = Result.match(parsed, {
      onFailure: (reason) => reason,
      onSuccess: (recipe) => (recipe === served ? undefined : refusal(recipe, files))
    })
    if (reason !== undefined) faults.push({ path: join(folder, file), reason, stamp: seen.stamp })
  }
  return { files, recipes, faults }
}

const refusal = ({ name }: Recipe, files: Content["files"]): string => {
  const [owner] = Array.from(files).find(([, { served }]) => served?.name === name) ?? []
  return owner === undefined ? `There are more than ${maxRecipes} recipes` : `Its name ${name} is the one of ${owner}`
}

/** Looks at the folder. Where it cannot be listed, what it had `before` stays. */
const look = Effect.fnUntraced(function* (
  { folder, isOptional }: Options,
  before: Content = nothing
): Effect.fn.Return<Content> {
  const listed = yield* Effect.result(listFiles(folder))
  if (Result.isFailure(listed)) {
    const { failure: reason } = listed
    if (isOptional && reason === TextFile.absent) return nothing
    return { ...before, faults: [{ path: folder, reason, stamp: reason }] }
  }
  const looked = yield* Effect.forEach(
    listed.success,
    (name) => Effect.map(lookAt(folder, name, before.files.get(name)), (file) => [name, file] as const),
    { concurrency: 8 }
  )
  return assign(folder, looked)
})

/** What is wrong in a folder of recipes, if anything: with the folder itself, or with files in it. */
export const faultsOf = (options: Options): Effect.Effect<ReadonlyArray<Fault>> =>
  Effect.map(look(options), ({ faults }) => faults)

const report = ({ path, reason }: Fault) => Effect.annotateLogs(Effect.logWarning("recipe_unusable"), { path, reason })

/**
 * The recipes of a folder: its files `*.md`. A change holds for plans that begin later. A file that cannot be used is reported, and the recipe
 * that it gave before stays.
 *
 * @example
 * ```ts
 * import * as RecipeFolder from "@bowline/runtime/prompt/RecipeFolder"
 * import { Effect } from "effect"
 *
 * const options = { folder: "recipes", isOptional: true }
 *
 * export const Recipes = RecipeFolder.layer(options)
 * export const check = Effect.flatMap(RecipeFolder.faultsOf(options), (faults) => Effect.log(faults))
 * ```
 */
export const layer = (options: Options): Layer.Layer<never, TextFile.UnusableText> =>
  Layer.effect(
    Recipes,
    Effect.gen(function* () {
      const { folder } = options
      let content = yield* look(options)
      const fault = content.faults.find(({ path }) => path === folder)
      if (fault !== undefined) return yield* new TextFile.UnusableText(fault)
      yield* Effect.forEach(content.faults, report, { discard: true })
      const check = Effect.gen(function* () {
        const { faults: known } = content
        content = yield* look(options, content)
        const isNew = ({ path, stamp }: Fault) => !known.some((one) => one.path === path && one.stamp === stamp)
        yield* Effect.forEach(content.faults.filter(isNew), report, { discard: true })
      })
      return yield* TextFile.refreshed(check, () => content.recipes)
    })
  )
