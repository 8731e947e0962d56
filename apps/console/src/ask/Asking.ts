import type { PlanRequest } from "@bowline/client"
import { surviving } from "../plan/Request.ts"

/** What a person fills in to ask. */
export interface Asking {
  /** A text, or parts with files. */
  readonly question: PlanRequest["question"]
  readonly preset: string
  readonly session: string
  /** JSON of what else the request has: agents, mcp_servers, preferences. */
  readonly more: string
}

type Made = { readonly request: PlanRequest } | { readonly problem: string }

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const parsed = (text: string): Record<string, unknown> | undefined => {
  if (text.trim() === "") return {}
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** The body of `POST /plan` for what was filled in, or what is wrong with it. The gateway checks the rest. */
export const requestOf = ({ more, preset, question, session }: Asking): Made => {
  if (typeof question === "string" && question.trim() === "") return { problem: "Write a question first." }
  const rest = parsed(more)
  if (rest === undefined)
    return { problem: 'More of the request: write a JSON object, as {"preferences": {"max_steps": 5}}.' }
  const named = {
    ...(preset === "" ? {} : { preset }),
    ...(session.trim() === "" ? {} : { session_id: session.trim() })
  }
  return { request: surviving({ ...rest, ...named, question }) }
}
