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

/** Which recipes there are for a caller who may have those that are allowed, as a plan begins. */
export type RecipesFor = (isAllowed: (name: string) => boolean) => Effect.Effect<RecipeTable>

/** The operator's recipes. None, unless the app brings some. */
export const Recipes = Context.Reference<RecipesFor>("@bowline/runtime/prompt/Recipes", {
  defaultValue: () => () => Effect.succeed(new Map())
})

export const tableOf = (recipes: ReadonlyArray<Recipe>): RecipeTable =>
  new Map(recipes.map((recipe) => [recipe.name, recipe]))

/** Recipes that never change. */
export const layer = (recipes: ReadonlyArray<Recipe>): Layer.Layer<never> =>
  Layer.succeed(Recipes, (isAllowed) => Effect.succeed(tableOf(recipes.filter(({ name }) => isAllowed(name)))))

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

/** Gives the bodies of these recipes: a name is looked up among them, and nowhere else. */
export const toTool = (recipes: RecipeTable): Tool => ({
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
  call: ({ input: { name } }) =>
    Effect.sync(() => {
      // The schema lets only text through.
      if (typeof name !== "string") return unknown("", recipes)
      const recipe = recipes.get(name)
      return recipe === undefined ? unknown(name, recipes) : { state: "completed", content: recipe.body }
    })
})
