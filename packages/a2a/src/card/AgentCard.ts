import type { Dialect, Skill } from "@bowline/domain/peer/Agent"
import { Effect, Schema } from "effect"

/** Where cards are, in the order of asking: A2A 0.3 and later, then bindu and A2A 0.2. */
export const locations = ["/.well-known/agent-card.json", "/.well-known/agent.json"] as const
export type Location = (typeof locations)[number]

const words = Schema.Array(Schema.String)
const modes = Schema.optionalKey(Schema.NullOr(words))

const CardSkill = Schema.Struct({
  id: Schema.String.check(Schema.isBetweenLength(1, 256)),
  name: Schema.optionalKey(Schema.NullOr(Schema.String)),
  description: Schema.optionalKey(Schema.NullOr(Schema.String)),
  tags: modes,
  inputModes: modes,
  outputModes: modes
})

/** What is used of an agent card. */
export const AgentCard = Schema.Struct({
  url: Schema.optionalKey(Schema.NullOr(Schema.String)),
  preferredTransport: Schema.optionalKey(Schema.NullOr(Schema.String)),
  agentTrust: Schema.optionalKey(Schema.Json),
  defaultInputModes: modes,
  defaultOutputModes: modes,
  skills: Schema.Array(CardSkill).pipe(Schema.withDecodingDefaultKey(Effect.succeed([])))
})
export type AgentCard = typeof AgentCard.Type

/** `agentTrust` is bindu's own; `preferredTransport` is A2A's own; else the place says it. */
export const dialectOf = (card: AgentCard, location: Location): Dialect => {
  if (card.agentTrust != null) return "bindu"
  return location === "/.well-known/agent.json" && card.preferredTransport == null ? "bindu" : "a2a-0.3"
}

/**
 * Where to send to: the URL of the card, if it has the origin of the configured endpoint and that one names no path of its
 * own; else the endpoint as it is configured.
 */
export const urlOf = (card: AgentCard, endpoint: string): string => {
  if (card.url == null || !URL.canParse(card.url)) return endpoint
  const configured = new URL(endpoint)
  const url = new URL(card.url)
  return url.origin === configured.origin && configured.pathname === "/" ? url.href : endpoint
}

/** Whether the card says that a skill takes text and nothing else. */
export const takesTextOnly = (card: AgentCard, skillId: string): boolean => {
  const skill = card.skills.find(({ id }) => id === skillId)
  const accepted = skill?.inputModes ?? card.defaultInputModes ?? []
  return accepted.length > 0 && accepted.every((mode) => mode === "text" || mode.startsWith("text/"))
}

/** The skills of a card as a request could have named them, cut to the limits of a request. */
export const skillsOf = (card: AgentCard): ReadonlyArray<Skill> =>
  card.skills.slice(0, 64).map(({ id, name, description, tags, outputModes }) => {
    const text = description ?? name
    const output_modes = (outputModes ?? card.defaultOutputModes ?? []).filter((mode) => mode !== "").slice(0, 32)
    return {
      id,
      ...(text != null && { description: text.slice(0, 4_096) }),
      ...(tags != null && { tags: tags.slice(0, 64) }),
      ...(output_modes.length > 0 && { output_modes })
    }
  })
