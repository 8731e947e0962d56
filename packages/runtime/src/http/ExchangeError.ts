import {
  Auth,
  EgressDenied,
  Http,
  PaymentRequired,
  Protocol,
  Unreachable,
  type PeerErrorReason
} from "@bowline/domain/peer/PeerError"
import { EgressRefusal } from "../egress/Egress.ts"
import { Data, Option, type Duration, type Schema } from "effect"

/**
 * How far a request got that failed.
 *
 * - `unsent`: the request never reached the peer.
 * - `transient`: the same request may work later. Whether the peer acted on this one is unknown.
 * - `refused`: the peer answered that it does not do it.
 * - `garbled`: the peer may have done it, but its answer is unusable.
 */
export type Verdict = "unsent" | "transient" | "refused" | "garbled"

/** A request to a peer that got no usable answer. `after` is the `Retry-After` of the peer. */
export class ExchangeError extends Data.TaggedError("ExchangeError")<{
  readonly reason: PeerErrorReason
  readonly verdict: Verdict
  readonly after: Option.Option<Duration.Duration>
}> {}

/** The same request may work later. */
export const isPassing = ({ verdict }: ExchangeError): boolean => verdict === "unsent" || verdict === "transient"

export const failure = (
  verdict: Verdict,
  reason: PeerErrorReason,
  after: Option.Option<Duration.Duration> = Option.none()
): ExchangeError => new ExchangeError({ reason, verdict, after })

/** No address, no connection, or a certificate that is not trusted: the codes of `X509_V_ERR_…` in OpenSSL, and of Node. */
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
  // The server does not speak TLS.
  "ERR_SSL_WRONG_VERSION_NUMBER"
])

/**
 * The alerts that end a handshake (RFC 8446, section 6.2), in OpenSSL's names. Its other alerts, such as that for a broken
 * record, may also come in the middle of the answer.
 */
const handshakeAlert =
  /^ERR_SSL_(TLSV1|TLSV13|SSLV3|SSL\/TLS)_(ALERT_)?(HANDSHAKE_FAILURE|NO_CERTIFICATE|BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|CERTIFICATE_(REVOKED|EXPIRED|UNKNOWN|REQUIRED)|UNKNOWN_CA|ACCESS_DENIED|PROTOCOL_VERSION|INSUFFICIENT_SECURITY|INAPPROPRIATE_FALLBACK|UNRECOGNIZED_NAME|NO_APPLICATION_PROTOCOL|UNKNOWN_PSK_IDENTITY|MISSING_EXTENSION)$/

/** The code of an error of Node: `fetch` puts it into the cause. */
const codeOf = (cause: unknown): string | undefined => {
  if (!(cause instanceof Error)) return undefined
  return "code" in cause && typeof cause.code === "string" ? cause.code : codeOf(cause.cause)
}

const refusalIn = (cause: unknown): EgressRefusal | undefined => {
  if (!(cause instanceof Error)) return undefined
  return cause instanceof EgressRefusal ? cause : refusalIn(cause.cause)
}

/**
 * A connection that failed. Where it was refused, not found, or failed in the TLS handshake, no part of the request arrived.
 * A connection that the egress rules deny is not tried again.
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

/** At most 500 characters, for a message. */
export const excerpt = (text: string): string => (text.length <= 500 ? text : `${text.slice(0, 500)}…`)

const isTransientStatus = (status: number): boolean =>
  status === 408 || status === 425 || status === 429 || status >= 500

/** The same request may get another answer later. */
export const mayPass = (reason: PeerErrorReason): boolean =>
  reason._tag === "unreachable" || (reason._tag === "http" && isTransientStatus(reason.status))

/** A status other than 2xx. The message quotes the body; for 402 the body is also the terms of the payment. */
export const fromStatus = (
  status: number,
  body: string | Schema.Json,
  after: Option.Option<Duration.Duration>
): ExchangeError => {
  const said = excerpt(typeof body === "string" ? body.trim() : JSON.stringify(body))
  const message = `The peer answered ${status}${said === "" ? "" : `: ${said}`}`
  if (status === 401 || status === 403) return failure("refused", new Auth({ message, status }))
  if (status === 402) return failure("refused", new PaymentRequired({ message, terms: body }))
  const isTransient = isTransientStatus(status)
  return failure(
    isTransient ? "transient" : "refused",
    new Http({ message, status }),
    isTransient ? after : Option.none()
  )
}

/** An answer that does not decode. `issue` says what is wrong, and where. */
export const garbled = (request: string, issue: { readonly message: string }): ExchangeError =>
  failure("garbled", new Protocol({ message: `The answer to ${request} does not decode: ${excerpt(issue.message)}` }))
