import type { Metadata } from "./ServedTask.ts"

/** What a card says of the gateway, or of one of its presets. */
export interface CardFacts {
  readonly name: string
  readonly description: string
  readonly version: string
  /** Where the bindings are, without a slash at its end. */
  readonly url: string
  readonly needsKey: boolean
  readonly hasPush: boolean
  readonly skills: ReadonlyArray<CardSkill>
}

export interface CardSkill {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly tags: ReadonlyArray<string>
}

/** That a stream goes on behind an event that its client has seen. It holds with each client; one that names it hears that. */
export const resumableStreams = "urn:bowline:a2a:resumable-streams:v1"

const extensions = [
  {
    uri: resumableStreams,
    description: "Each event has an id. SubscribeToTask with it as Last-Event-ID goes on behind that event",
    required: false
  }
]

const inputModes = ["text/plain", "application/json"]

/** An agent card for clients of 1.0. */
export const make10 = ({ description, hasPush, name, needsKey, skills, url, version }: CardFacts): Metadata => ({
  name,
  description,
  version,
  supportedInterfaces: [
    { url, protocolBinding: "JSONRPC", protocolVersion: "1.0" },
    { url, protocolBinding: "HTTP+JSON", protocolVersion: "1.0" },
    { url, protocolBinding: "JSONRPC", protocolVersion: "0.3" }
  ],
  capabilities: { streaming: true, pushNotifications: hasPush, extendedAgentCard: true, extensions },
  defaultInputModes: inputModes,
  defaultOutputModes: inputModes,
  skills: skills.map((skill) => ({ ...skill })),
  ...(needsKey && {
    securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: "Bearer" } } },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }]
  })
})

/** An agent card that clients of 1.0 and of 0.3 read: the members of each, side by side. */
export const make = (facts: CardFacts): Metadata => ({
  ...make10(facts),
  ...(facts.needsKey && {
    // A client of 1.0 looks for the member, one of 0.3 for the type.
    securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: "Bearer" }, type: "http", scheme: "bearer" } },
    security: [{ bearer: [] }]
  }),
  protocolVersion: "0.3.0",
  url: facts.url,
  preferredTransport: "JSONRPC",
  additionalInterfaces: [
    { url: facts.url, transport: "JSONRPC" },
    { url: facts.url, transport: "HTTP+JSON" }
  ],
  supportsAuthenticatedExtendedCard: true
})
