import {
  Auth,
  EgressDenied,
  Http,
  PaymentRequired,
  Protocol,
  Unreachable,
  type PeerErrorReason
} from "@bowline/domain/peer/PeerError"
import { EgressRefusal } from "@bowline/runtime/egress/Egress"
import { Data, Option, type Duration, type Schema } from "effect"

/**
 * What is known about a request that failed.
 *
 * - `unsent`: it never reached the peer.
 * - `transient`: asked again, it may work. Whether the peer acted on it is not known.
 * - `refused`: the peer answered that it will not do it.
 * - `garbled`: the peer may have done it, but its answer cannot be used.
 */
export type Verdict = "unsent" | "transient" | "refused" | "garbled"

/** One request to a peer that gave no usable answer. `after` is how long the peer asked to be left alone. */
export class ExchangeError extends Data.TaggedError("ExchangeError")<{
  readonly reason: PeerErrorReason
  readonly verdict: Verdict
  readonly after: Option.Option<Duration.Duration>
}> {}

/** Asked again, it may work. */
export const isPassing = ({ verdict }: ExchangeError): boolean => verdict === "unsent" || verdict === "transient"

export const failure = (
  verdict: Verdict,
  reason: PeerErrorReason,
  after: Option.Option<Duration.Duration> = Option.none()
): ExchangeError => new ExchangeError({ reason, verdict, after })

/** No address, no connection, or a certificate that is not believed (the codes of `X509_V_ERR_…` in OpenSSL, and Node's own). */
const neverReached = new Set([
  "EADDRNOTAVAIL",
  "EAI_AGAIN",
  "EAI_FAIL",
  "EAI_NODATA",
  "EAI_NONAME",
  "ECONNREFUSED",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENETDOWN",
  "ENETUNREACH",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
  "CERT_CHAIN_TOO_LONG",
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REJECTED",
  "CERT_REVOKED",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERROR_IN_CERT_NOT_AFTER_FIELD",
  "ERROR_IN_CERT_NOT_BEFORE_FIELD",
  "HOSTNAME_MISMATCH",
  "INVALID_CA",
  "INVALID_PURPOSE",
  "PATH_LENGTH_EXCEEDED",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "ERR_TLS_HANDSHAKE_TIMEOUT",
  // What is there does not speak TLS.
  "ERR_SSL_WRONG_VERSION_NUMBER"
])

/**
 * What the other side says to end a handshake (RFC 8446, section 6.2), as OpenSSL calls it. The same library has words for
 * a broken record, which may be one of the answer.
 */
const handshakeAlert =
  /^ERR_SSL_(TLSV1|TLSV13|SSLV3|SSL\/TLS)_(ALERT_)?(HANDSHAKE_FAILURE|NO_CERTIFICATE|BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|CERTIFICATE_(REVOKED|EXPIRED|UNKNOWN|REQUIRED)|UNKNOWN_CA|ACCESS_DENIED|PROTOCOL_VERSION|INSUFFICIENT_SECURITY|INAPPROPRIATE_FALLBACK|UNRECOGNIZED_NAME|NO_APPLICATION_PROTOCOL|UNKNOWN_PSK_IDENTITY|MISSING_EXTENSION)$/

/** The code of a failure of Node's: `fetch` puts it one cause further down. */
const codeOf = (cause: unknown): string | undefined => {
  if (!(cause instanceof Error)) return undefined
  return "code" in cause && typeof cause.code === "string" ? cause.code : codeOf(cause.cause)
}

const refusalIn = (cause: unknown): EgressRefusal | undefined => {
  if (!(cause instanceof Error)) return undefined
  return cause instanceof EgressRefusal ? cause : refusalIn(cause.cause)
}

/**
 * A connection that failed. Refused, not found, or no agreement on TLS: nothing of the request can have arrived. One that
 * the gateway itself does not make is not tried again.
 */
export const fromTransport = (cause: unknown): ExchangeError => {
  const refusal = refusalIn(cause)
  if (refusal !== undefined) return failure("refused", new EgressDenied({ message: refusal.message }))
  const code = codeOf(cause)
  const unsent = code !== undefined && (neverReached.has(code) || handshakeAlert.test(code))
  return failure(
    unsent ? "unsent" : "transient",
    new Unreachable({ message: `The connection to the peer failed${code === undefined ? "" : ` (${code})`}`, code })
  )
}

/** Long enough to be of use, short enough for a message. */
export const excerpt = (text: string): string => (text.length <= 500 ? text : `${text.slice(0, 500)}…`)

/** A status that is not 2xx. `body` is for the message, and the terms of a payment. */
export const fromStatus = (
  status: number,
  body: string | Schema.Json,
  after: Option.Option<Duration.Duration>
): ExchangeError => {
  const said = excerpt(typeof body === "string" ? body.trim() : JSON.stringify(body))
  const message = `The peer answered ${status}${said === "" ? "" : `: ${said}`}`
  if (status === 401 || status === 403) return failure("refused", new Auth({ message, status }))
  if (status === 402) return failure("refused", new PaymentRequired({ message, terms: body }))
  const isTransient = status === 408 || status === 425 || status === 429 || status >= 500
  return failure(
    isTransient ? "transient" : "refused",
    new Http({ message, status }),
    isTransient ? after : Option.none()
  )
}

/** An answer that is not what it has to be. `issue` says what and where. */
export const garbled = (request: string, issue: { readonly message: string }): ExchangeError =>
  failure("garbled", new Protocol({ message: `The answer to ${request} does not decode: ${excerpt(issue.message)}` }))
