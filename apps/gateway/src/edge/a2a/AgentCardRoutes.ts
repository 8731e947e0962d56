import { Presets } from "@bowline/runtime/unstable/config/Presets"
import { Api } from "@bowline/protocol/api/Api"
import { DateTime, Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Etag from "../../http/Etag.ts"
import { answer, Refused } from "../../http/Refusals.ts"
import * as GatewayCards from "./GatewayCards.ts"

/** The answer with a card, or that the client has it already. `since` is when the card began to be what it is. */
const respond = (
  request: HttpServerRequest.HttpServerRequest,
  card: object,
  since: Date
): HttpServerResponse.HttpServerResponse => {
  const text = JSON.stringify(card)
  const etag = Etag.of(text)
  const headers = {
    "cache-control": "public, max-age=300",
    etag,
    "last-modified": since.toUTCString(),
    vary: "A2A-Version"
  }
  return Etag.isKnown(request, etag, since)
    ? HttpServerResponse.empty({ status: 304, headers })
    : HttpServerResponse.text(text, { contentType: "application/json", headers })
}

/** Shows everybody the cards of the gateway and of its presets. */
export const layer = HttpApiBuilder.group(
  Api,
  "agentCards",
  Effect.fnUntraced(function* (handlers) {
    const cards = yield* GatewayCards.make
    // With that of the demo, which the configuration does not name.
    const presets = Array.from((yield* Presets).values())
    // A process has one configuration.
    const since = yield* DateTime.nowAsDate

    return handlers
      .handleRaw("card", ({ request }) =>
        Effect.succeed(respond(request, cards.of(request, presets, undefined), since))
      )
      .handleRaw("presetCard", ({ params, request }) => {
        const preset = presets.find(({ name }) => name === params.preset)
        return preset === undefined
          ? answer(Effect.fail(new Refused({ code: "not_found", detail: "There is no such agent" })))
          : Effect.succeed(respond(request, cards.of(request, presets, preset), since))
      })
  })
)
