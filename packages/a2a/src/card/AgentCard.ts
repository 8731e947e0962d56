import { Did, type Skill } from "@bowline/domain/peer/Agent"
import { Effect, Schema } from "effect"

/** Where cards are, in the order in which they are tried: A2A 0.3 and later, then bindu and A2A 0.2. */
export const locations = ["/.well-known/agent-card.json", "/.well-known/agent.json"] as const
export type Location = (typeof locations)[number]

/** Peers whose cards, dialects and spellings a process remembers. */
export const maxPeers = 1_000

const word = Schema.optionalKey(Schema.NullOr(Schema.String))
const list = <A, I>(item: Schema.Codec<A, I>) => Schema.optionalKey(Schema.NullOr(Schema.Array(item)))
const words = list(Schema.String)

const CardSkill = Schema.Struct({
  id: Schema.String.check(Schema.isBetweenLength(1, 256)),
  name: word,
  description: word,
  tags: words,
  inputModes: words,
  outputModes: words
})

/** The members of an agent card that the gateway uses: of A2A 1.0, of 0.3, and of bindu. */
export const AgentCard = Schema.Struct({
  id: Schema.optionalKey(Schema.Json),
  name: word,
  description: word,
  url: word,
  preferredTransport: word,
  additionalInterfaces: list(Schema.Struct({ url: word, transport: word })),
  supportedInterfaces: list(Schema.Struct({ url: word, protocolBinding: word, protocolVersion: word, tenant: word })),
  agentTrust: Schema.optionalKey(Schema.Json),
  capabilities: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        streaming: Schema.optionalKey(Schema.NullOr(Schema.Boolean)),
        extensions: list(Schema.Struct({ uri: word }))
      })
    )
  ),
  defaultInputModes: words,
  defaultOutputModes: words,
  skills: Schema.Array(CardSkill).pipe(Schema.withDecodingDefaultKey(Effect.succeed([])))
})
export type AgentCard = typeof AgentCard.Type

const isDid = Schema.is(Did)

/** The DID that a peer claims: the `id` of its card, or, in bindu, the URI of an extension. */
export const didOf = (card: AgentCard): string | null => {
  const named: ReadonlyArray<unknown> = [card.id, ...(card.capabilities?.extensions ?? []).map(({ uri }) => uri)]
  return named.find(isDid) ?? null
}

/** Whether the card says that a skill takes text and nothing else. */
export const takesTextOnly = (card: AgentCard, skillId: string): boolean => {
  const skill = card.skills.find(({ id }) => id === skillId)
  const accepted = skill?.inputModes ?? card.defaultInputModes ?? []
  return accepted.length > 0 && accepted.every((mode) => mode === "text" || mode.startsWith("text/"))
}

/** The skills of a card in the form of a request, cut to the limits of a request. */
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
