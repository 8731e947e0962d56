import { Data, type Effect, Stream } from "effect"

/** A request as a host gets it. Names of headers are in lower case. */
export interface HostRequest {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** Its text. Of Protobuf it is one character for each byte (`latin1`), where the network has bytes. */
  readonly body: string
}

/** Each piece of `body` is one write. The head is sent at once, before the first piece. */
export interface HostResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Stream.Stream<Uint8Array, Fault>
}

/** The host breaks the connection: `cut` closes it in mid-answer (FIN), `reset` resets it (RST). */
export class Fault extends Data.TaggedError("Fault")<{ readonly kind: "cut" | "reset" }> {}

/**
 * A scripted HTTP service. It waits on the `Clock`, and is interrupted when the client disconnects. A `Fault`
 * breaks the connection before the head of the answer. A defect is a bug of the script: it is answered with 500 and logged.
 *
 * @example
 * ```ts
 * import { Fault, type Host, json, text } from "@bowline/testing/http/Host"
 * import { Effect } from "effect"
 *
 * export const host: Host = ({ url }) => {
 *   if (url.pathname === "/broken") return Effect.fail(new Fault({ kind: "reset" }))
 *   return Effect.succeed(url.pathname === "/knots" ? json(200, ["bowline"]) : text(404, "No such page"))
 * }
 * ```
 */
export type Host = (request: HostRequest) => Effect.Effect<HostResponse, Fault>

const encoder = new TextEncoder()

/** An answer in one piece. */
export const text = (
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = { "content-type": "text/plain; charset=utf-8" }
): HostResponse => ({ status, headers, body: body === "" ? Stream.empty : Stream.succeed(encoder.encode(body)) })

/** An answer of JSON, in one piece. */
export const json = (status: number, body: unknown, headers?: Readonly<Record<string, string>>): HostResponse =>
  text(status, JSON.stringify(body), { "content-type": "application/json", ...headers })
