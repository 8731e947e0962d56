import { Context, Effect, Layer } from "effect"
import type { JsonSchema, Tool, ToolResult } from "../tool/Tool.ts"
import * as ToolName from "../tool/ToolName.ts"

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
 * import { Effect } from "effect"
 *
 * export const Refunds = Recipes.layer([
 *   { name: "refund", description: "How to give a customer money back", body: "# Refund\n…" }
 * ])
 *
 * // What a plan offers to the model: the tool `load_recipe`, which gives the bodies of these recipes.
 * export const offered = Effect.gen(function* () {
 *   const all = yield* yield* Recipes.Recipes
 *   const isAllowed = (name: string) => name !== "voucher"
 *   yield* Effect.log(Recipes.toolName, [...Recipes.allowed(all, isAllowed).keys()])
 *   return Recipes.toTool(all, isAllowed)
 * })
 * ```
 */
export const layer = (recipes: ReadonlyArray<Recipe>): Layer.Layer<never> =>
  Layer.succeed(Recipes, Effect.succeed(new Map(recipes.map((recipe) => [recipe.name, recipe]))))

/** Those whose names are allowed. */
export const allowed = (recipes: RecipeTable, isAllowed: (name: string) => boolean): RecipeTable =>
  new Map(Array.from(recipes).filter(([name]) => isAllowed(name)))

/** The tool that gives the model the body of a recipe. No tool of a request may have its name. */
export const toolName = "load_recipe"

const inputSchema: JsonSchema = {
  type: "object",
  properties: { name: { type: "string", description: "The name of the recipe" } },
  required: ["name"],
  additionalProperties: false
}

const unknown = (name: string, recipes: RecipeTable): ToolResult => {
  const message = `There is no recipe ${ToolName.withNearest(name, recipes.keys())}`
  return { state: "invalid", content: message, error: { code: "invalid", message } }
}

/** Gives the bodies of these recipes, if they are allowed at the time of the call: a name is looked up among them, and nowhere else. */
export const toTool = (recipes: RecipeTable, isAllowed: (name: string) => boolean): Tool => ({
  name: toolName,
  kind: "recipe",
  agent: null,
  endpoint: null,
  skill: null,
  description: "Returns the text of a recipe, by its name",
  inputSchema,
  timeoutMs: undefined,
  isIdempotent: true,
  isPolling: false,
  approval: undefined,
  identify: Effect.succeed(null),
  call: ({ input }) =>
    Effect.sync(() => {
      // The schema lets only text through.
      const name = typeof input["name"] === "string" ? input["name"] : ""
      const loadable = allowed(recipes, isAllowed)
      const recipe = loadable.get(name)
      return recipe === undefined ? unknown(name, loadable) : { state: "completed", content: recipe.body }
    })
})
