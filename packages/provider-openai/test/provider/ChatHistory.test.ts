import type { ProviderRequest } from "@bowline/runtime/provider/Provider"
import { legalHistory, toldHistory } from "@bowline/runtime/unstable/provider/LegalHistory"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { faults, RandomHistory } from "@bowline/testing/unstable/session/RandomHistory"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { toChatRequest } from "../../src/provider/internal/toChatRequest.ts"

/** Of a server that is as strict as the format is: it fails if it does not take the request. */
const faultsOf = Effect.fnUntraced(function* (messages: ProviderRequest["messages"]) {
  const request: ProviderRequest = { model: "m", system: "", messages, tools: [], toolChoice: "none" }
  const body = JSON.stringify(toChatRequest(request))
  const url = new URL("http://host.test/v1/chat/completions")
  return faults(yield* ChatHost.asked({ method: "POST", url, headers: {}, body }), body)
})

describe("toChatRequest", () => {
  it.effect.prop(
    "turns any history into a request that the server accepts",
    { messages: RandomHistory },
    ({ messages }) => Effect.map(faultsOf(legalHistory(messages)), (found) => assert.isEmpty(found))
  )

  it.effect.prop(
    "does so, too, with a history whose calls are told in text",
    { messages: RandomHistory },
    ({ messages }) => Effect.map(faultsOf(toldHistory(legalHistory(messages))), (found) => assert.isEmpty(found))
  )
})
