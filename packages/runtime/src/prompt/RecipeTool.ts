import { Effect } from "effect"
import type { JsonSchema, Tool, ToolResult } from "../tool/Tool.ts"
import * as ToolName from "../tool/ToolName.ts"
import type { RecipeTable } from "./Recipes.ts"

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
