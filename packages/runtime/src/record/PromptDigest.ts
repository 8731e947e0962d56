import { createHash } from "node:crypto"
import type { Entry } from "../provider/LegalHistory.ts"
import type { ProviderRequest } from "../provider/Provider.ts"

/**
 * A UUID, behind its first eight digits. So a text is searched for hyphens, which takes a tenth of the time of a search for digits.
 */
const uuid = /(?<=[0-9a-f]{8})-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g

/** 96 bits of a SHA-256, in base64url. Ids are drawn anew when a plan is replayed: of every UUID only its place counts. */
export const digestOf = (...texts: ReadonlyArray<string>): string => {
  const hash = createHash("sha256")
  for (const text of texts) {
    let from = 0
    for (const { 0: rest, index } of text.matchAll(uuid)) {
      hash.update(text.slice(from, index - 8)).update("#")
      from = index + rest.length
    }
    hash.update(text.slice(from)).update("\0")
  }
  return hash.digest("base64url").slice(0, 16)
}

/** 36 bits of it: each is compared with one other only. */
const shortDigest = (...texts: ReadonlyArray<string>): string => digestOf(...texts).slice(0, 6)

/** What a model was asked, as digests: so it can be compared with what another version asks. */
export interface PromptDigest {
  /** Of the system prompt: instructions, recipes, the summary, and what else stands in it. */
  readonly system: string
  readonly tools: string
  readonly messages: string
  /** Of how it was asked: whether tools may be called, the schema of the answer, the sampling. */
  readonly rest: string
}

/** The time at which a call of the tool `wait` ended, in its result. */
const waitEnd = /(?<=^\{"because":"(?:text|timer)","at":")[^"]+/

/** Its text without the ids of calls, and without the times at which waits ended: legal histories have each result directly behind its call. */
const textsOf = ({ parts, role }: Entry): ReadonlyArray<string> => [
  role,
  ...parts.flatMap((part): ReadonlyArray<string> => {
    switch (part.type) {
      case "text":
      case "reasoning":
        return [part.type, part.text]
      case "tool_call":
        return [part.type, part.tool, part.raw_input ?? JSON.stringify(part.input)]
      case "tool_result":
        return [part.type, part.content.replace(waitEnd, "#")]
      case "file":
        return [part.type, JSON.stringify(part)]
    }
  })
]

const digests = ["system", "tools", "messages", "rest"] as const

/** Whether both are of the same prompt. An earlier version has kept longer digests. */
export const isSame = (one: PromptDigest, other: PromptDigest): boolean =>
  digests.every((name) => one[name].startsWith(other[name]) || other[name].startsWith(one[name]))

/** Of lists that are the same in most steps of a plan. */
const ofTools = new WeakMap<ProviderRequest["tools"], string>()

/** What the model sees of a tool. */
const toShown = ({ description, inputSchema, name }: ProviderRequest["tools"][number]) => ({
  name,
  description,
  inputSchema
})

const toolsOf = (tools: ProviderRequest["tools"]): string => {
  const known = ofTools.get(tools) ?? shortDigest(JSON.stringify(tools.map(toShown)))
  ofTools.set(tools, known)
  return known
}

/** It costs less than 1 ms for a prompt of 400 kB. */
export const of = (request: Omit<ProviderRequest, "facts" | "model">): PromptDigest => {
  const { messages, system, tools, ...rest } = request
  return {
    system: shortDigest(system),
    tools: toolsOf(tools),
    messages: shortDigest(...messages.flatMap(textsOf)),
    rest: shortDigest(JSON.stringify(rest))
  }
}
