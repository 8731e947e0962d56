import { question, type Asked } from "@bowline/testing/unstable/provider/Script"
import { say, type Turn } from "@bowline/testing/provider/Turn"
import { post, readAll } from "@bowline/testing/unstable/TestKit"
import { Effect } from "effect"

/** A window of 4,000 tokens: beyond 2,400 a prompt is too long. */
export const small = {
  model: "scripted/gpt-4o-mini",
  contextWindow: 4_000,
  models: () => ({
    exact: new Map([["scripted/gpt-4o-mini", { contextWindow: 4_000, outputLimit: 1_000 }]]),
    named: new Map()
  })
}

export const words = (count: number): string => "word ".repeat(count)

export const isSummary = ({ system }: Asked): boolean => system.startsWith("You keep the memory")

/** Everything that was asked, as one text. */
export const textOf = (asked: Asked | undefined): string => JSON.stringify([asked?.system, asked?.messages])

/** A summariser that keeps every fact that it is given, and a planner that agrees. */
export const keepFacts = (asked: Asked): Turn =>
  isSummary(asked) ? [say([...new Set(question(asked).match(/FACT-\w+/g))].join(" ") || "None.")] : [say("noted")]

/** Asks in the session, and reads to the end. */
export const ask = (text: string, fields: object = {}) =>
  Effect.scoped(Effect.flatMap(post({ question: text, session_id: "s", ...fields }), ({ frames }) => readAll(frames)))
