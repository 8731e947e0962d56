import {
  Auth,
  PeerError,
  Protocol,
  ResponseTooLarge,
  Rpc,
  Unreachable,
  type PeerErrorReason
} from "@bowline/domain/peer/PeerError"
import * as JsonValue from "@bowline/domain/unstable/json/JsonValue"
import { excerpt, fromStatus, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { Redaction } from "@bowline/runtime/unstable/http/Redaction"
import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError, UnauthorizedError } from "@modelcontextprotocol/client"
import { Data, Option, type Schema } from "effect"

/** A request that the protocol's client could not make, or that the server refused. */
export class ServerFailure extends Data.TaggedError("ServerFailure")<{
  readonly reason: PeerErrorReason
  /** The server answered this very request with 404: it does not know the session, and has not taken the request. */
  readonly isSessionGone: boolean
  /** The server does not speak the revision of the protocol. */
  readonly isOtherRevision: boolean
  /** The server has taken the call before: whatever has failed since, the call is not made again. */
  readonly isTaken?: boolean
}> {
  static of(reason: PeerErrorReason): ServerFailure {
    return new ServerFailure({ reason, isSessionGone: false, isOtherRevision: false })
  }

  /** The failure of a later request of a call that the server has taken. */
  get taken(): ServerFailure {
    const { isOtherRevision, reason } = this
    return new ServerFailure({ reason, isOtherRevision, isSessionGone: false, isTaken: true })
  }

  get asPeerError(): PeerError {
    return new PeerError({ reason: this.reason, ...(this.isTaken === true && { isTaken: true }) })
  }
}

const unsupportedRevision = -32_022

const isJson = (data: unknown): data is Schema.Json => JsonValue.problem(data) === undefined

const reasonOf = (error: unknown, redaction: Redaction): PeerErrorReason => {
  const said = excerpt(redaction.text(error instanceof Error ? error.message : String(error)))
  if (ProtocolError.isInstance(error)) {
    // The gateway's own error: what a server sends is plain JSON.
    if (error.data instanceof ResponseTooLarge || error.data instanceof Unreachable) return error.data
    const data = error.data === undefined || !isJson(error.data) ? undefined : redaction.json(error.data)
    return new Rpc({ message: `The server answered with an error: ${said}`, code: error.code, data })
  }
  if (SdkHttpError.isInstance(error)) {
    const { text } = error.data
    return fromStatus(error.status, redaction.text(typeof text === "string" ? text : ""), Option.none()).reason
  }
  if (error instanceof UnauthorizedError) return new Auth({ message: "The server answered 401", status: 401 })
  if (SdkError.isInstance(error) && error.code === SdkErrorCode.ConnectionClosed) {
    return new Unreachable({ message: "The server closed the connection before it answered" })
  }
  return new Protocol({ message: `The server does not keep to the protocol: ${said}` })
}

/** The server says that it does not speak the revision, or does not name it among those that it speaks. */
const refusesRevision = (error: unknown): boolean =>
  (ProtocolError.isInstance(error) && error.code === unsupportedRevision) ||
  (SdkError.isInstance(error) && error.code === SdkErrorCode.EraNegotiationFailed)

/** What the client of the protocol threw. `cause` is why the request failed below the protocol, if it did. */
export const toFailure = (error: unknown, redaction: Redaction, cause: ExchangeError | undefined): ServerFailure => {
  const status = SdkHttpError.isInstance(error) ? error.status : undefined
  return new ServerFailure({
    reason: cause?.reason ?? reasonOf(error, redaction),
    isSessionGone: status === 404,
    isOtherRevision: status === 400 || (cause === undefined && refusesRevision(error))
  })
}
