import { Context, Effect, Layer, Result } from "effect"
import * as TextFile from "./TextFile.ts"

/** What the system prompt of every plan begins with, unless the operator writes another one. */
export const builtIn: string = `You are a planner. You answer a question by planning which of your tools to call, calling them, and reading what they return.

# Before you call

- Read the whole question, and what was said before it. Answer at once what needs no tool.
- Call only what the question needs. Never call a tool that changes something only to see what it does.
- A tool knows nothing of this conversation: give it names, numbers and dates as they are, in its own words.

# Calling tools

- Call several tools at once when they do not depend on each other.
- Do not repeat a call that has just failed in the same way. Correct its arguments, take another tool, or continue without it.
- After a time-out nobody knows whether the call had an effect. Find out before you make it again.
- A tool may ask back: for an input, a payment or a sign-in. Answer it if you can. Otherwise end, and tell the caller exactly what it asks for.

# Answering

- When you know enough, answer in plain text, in the language of the question, with the result first.
- Say only what you were told or what follows from it. Where tools contradict each other, say so, and name them.
- Say what you could not find out, and why.
`

/**
 * The planner's instructions, as they are when a plan begins.
 *
 * @example
 * ```ts
 * import { builtIn, layerFile, PlannerText } from "@bowline/runtime/prompt/PlannerText"
 * import { Effect, Layer } from "effect"
 *
 * export const Polite = Layer.succeed(PlannerText, Effect.succeed(`${builtIn}\nAnswer politely.`))
 *
 * // Or from a file, which is looked at when a plan begins.
 * export const FromFile = layerFile("planner.md")
 * ```
 */
export const PlannerText = Context.Reference<Effect.Effect<string>>("@bowline/runtime/prompt/PlannerText", {
  defaultValue: () => Effect.succeed(builtIn)
})

/** The instructions of this file. A change holds for plans that begin later; one that cannot be used is reported, and the old text stays. */
export const layerFile = (path: string): Layer.Layer<never, TextFile.UnusableText> =>
  Layer.effect(
    PlannerText,
    Effect.gen(function* () {
      let seen = yield* TextFile.look(path)
      if (Result.isFailure(seen.text)) return yield* new TextFile.UnusableText({ path, reason: seen.text.failure })
      let text = seen.text.success
      const check = Effect.gen(function* () {
        const now = yield* TextFile.look(path, seen)
        if (now === seen) return
        seen = now
        if (Result.isSuccess(now.text)) text = now.text.success
        else yield* Effect.annotateLogs(Effect.logWarning("planner_file_unusable"), { path, reason: now.text.failure })
      })
      return yield* TextFile.refreshed(check, () => text)
    })
  )
