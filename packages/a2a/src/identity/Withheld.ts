import {
  Auth,
  Http,
  PaymentRequired,
  Protocol,
  Rpc,
  Unreachable,
  type PeerErrorReason
} from "@bowline/domain/peer/PeerError"

/** A failure without anything that the peer said: a failure is not signed, and of this peer only signed words are shown. */
export const withoutWords = (reason: PeerErrorReason): PeerErrorReason => {
  switch (reason._tag) {
    case "rpc":
      return new Rpc({ message: `The peer refused the request (${reason.code})`, code: reason.code })
    case "http":
      return new Http({ message: `The peer answered ${reason.status}`, status: reason.status })
    case "auth":
      return reason.status === undefined
        ? reason
        : new Auth({ message: `The peer answered ${reason.status}`, status: reason.status })
    case "payment_required":
      return new PaymentRequired({ message: "The peer asks for a payment" })
    case "unreachable":
      return reason.code === undefined ? new Unreachable({ message: "The peer gives no usable answer" }) : reason
    case "protocol":
      return new Protocol({ message: "The answer of the peer does not decode" })
    default:
      return reason
  }
}
