import type { CallerName } from "@bowline/domain/caller/CallerName"
import { AskerFacts } from "@bowline/runtime/unstable/config/AskerFacts"
import { Recipes } from "@bowline/runtime/prompt/Recipes"
import { Effect } from "effect"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import { code, type Params, RpcError } from "./RpcMessage.ts"

/** The recipes that a caller may load, as prompts: a client puts the text of one into its own conversation. They take no arguments. */
export const make = Effect.gen(function* () {
  const { permissions } = yield* GatewayConfig
  const recipes = yield* Recipes

  const of = Effect.fnUntraced(function* (caller: CallerName) {
    const { groups } = yield* AskerFacts
    const permission = permissions.forCaller(caller, groups)
    return Array.from((yield* recipes).values()).filter(({ name }) => permission.recipe(name))
  })

  return {
    "prompts/list": (caller: CallerName) =>
      Effect.map(of(caller), (allowed) => ({
        prompts: allowed.map(({ description, name }) => ({ name, description }))
      })),
    "prompts/get": Effect.fnUntraced(function* (caller: CallerName, { name }: Params) {
      const recipe = (yield* of(caller)).find((recipe) => recipe.name === name)
      if (recipe === undefined) {
        const message = "Wrong: params.name. Expected the name of a prompt: prompts/list has them"
        return yield* new RpcError({ code: code.invalidParams, status: 200, message })
      }
      const { body: text, description } = recipe
      return { description, messages: [{ role: "user", content: { type: "text", text } }] }
    })
  }
})
