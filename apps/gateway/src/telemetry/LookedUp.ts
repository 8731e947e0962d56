import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import * as GenAi from "@bowline/runtime/unstable/telemetry/GenAi"
import { gauge } from "@bowline/runtime/unstable/telemetry/Instrument"
import { type Context, Effect, Layer, Schedule } from "effect"

/** Reading the states takes a statement, so it is done now and then, and not whenever somebody scrapes. */
const interval = "15 seconds"

const credentialStates = ["ok", "cooldown", "out"] as const
const breakerStates = ["closed", "open", "half-open"] as const

const credentials = gauge({
  name: "bowline.credentials",
  description: "1 for the state of a credential, 0 for the others; looked up every 15 s",
  labels: {
    [GenAi.provider]: "the configured providers",
    [GenAi.credential]: "the configured credentials",
    state: credentialStates
  }
})
const breakers = gauge({
  name: "bowline.peer.breakers",
  description: "Circuit breakers of the peers that this process has called, by state; looked up every 15 s",
  labels: { state: breakerStates }
})

const lookUp = Effect.gen(function* () {
  const context: Context.Context<never> = yield* Effect.context()
  const peers = yield* (yield* PeerClient).peers
  for (const state of breakerStates) {
    breakers.updateUnsafe(peers.filter(({ breaker }) => breaker.state === state).length, { state }, context)
  }
  for (const { id, provider, state } of yield* (yield* CredentialPool).list) {
    for (const each of credentialStates) {
      const labels = { [GenAi.provider]: provider, [GenAi.credential]: id, state: each } as const
      credentials.updateUnsafe(each === state ? 1 : 0, labels, context)
    }
  }
})

/** Measures what others know: the states of credentials and of circuit breakers. While the database is away, those of credentials stay as they were. */
export const layer = Layer.effectDiscard(
  lookUp.pipe(Effect.ignore, Effect.repeat(Schedule.spaced(interval)), Effect.forkScoped)
)
