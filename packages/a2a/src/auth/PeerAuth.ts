import type { AgentAuth } from "@bowline/domain/peer/Agent"
import { Auth } from "@bowline/domain/peer/PeerError"
import type { EnvironmentSecrets } from "@bowline/runtime/peer/EnvironmentSecrets"
import { Effect, Option, Redacted } from "effect"
import { failure, type ExchangeError } from "../http/ExchangeError.ts"

export type Headers = Readonly<Record<string, string>>

/** What proves to a peer who asks it. */
export interface PeerAuth {
  /** The headers of a request with this body, which is sent byte for byte as it is. They hold secrets. */
  readonly headers: (body: string) => Effect.Effect<Headers, ExchangeError>
  /** After a 401: whether there is something new to ask with, so that the request can be made once more. */
  readonly renew: Effect.Effect<boolean, ExchangeError>
}

const fixed = (headers: Headers): PeerAuth => ({
  headers: () => Effect.succeed(headers),
  renew: Effect.succeed(false)
})

const bearer = (token: Redacted.Redacted) => fixed({ authorization: `Bearer ${Redacted.value(token)}` })

/** Finds what an agent is to be asked with. A variable that is not set, or not allowed, is named, and nothing is sent. */
export const forAgent = Effect.fnUntraced(function* (
  auth: AgentAuth,
  secrets: typeof EnvironmentSecrets.Service
): Effect.fn.Return<PeerAuth, ExchangeError> {
  switch (auth.type) {
    case "none":
      return fixed({})
    case "bearer":
      return bearer(auth.token)
    case "bearer_env": {
      const token = yield* secrets.get(auth.env_var)
      if (Option.isSome(token)) return bearer(token.value)
      const why = secrets.isAllowed(auth.env_var) ? "is not set" : "is not on the list of allowed variables"
      return yield* failure("unsent", new Auth({ message: `The variable ${auth.env_var} ${why}: nothing was sent` }))
    }
    case "did_signed":
    case "oauth2_client_credentials":
      return yield* failure("unsent", new Auth({ message: "not yet" }))
  }
})
