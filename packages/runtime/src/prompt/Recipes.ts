import { Context, Effect, Layer } from "effect"

/** How to do one thing, in Markdown. The model always sees `name` and `description`, and the `body` when it asks for it. */
export interface Recipe {
  readonly name: string
  readonly description: string
  readonly body: string
}

/** By name. */
export type RecipeTable = ReadonlyMap<string, Recipe>

/** The operator's recipes, as they are when a plan begins. None, unless the app brings some. */
export const Recipes = Context.Reference<Effect.Effect<RecipeTable>>("@bowline/runtime/prompt/Recipes", {
  defaultValue: () => Effect.succeed(new Map())
})

/**
 * Recipes that never change.
 *
 * @example
 * ```ts
 * import * as Recipes from "@bowline/runtime/prompt/Recipes"
 *
 * export const Refunds = Recipes.layer([
 *   { name: "refund", description: "How to give a customer money back", body: "# Refund\n…" }
 * ])
 * ```
 */
export const layer = (recipes: ReadonlyArray<Recipe>): Layer.Layer<never> =>
  Layer.succeed(Recipes, Effect.succeed(new Map(recipes.map((recipe) => [recipe.name, recipe]))))
