import {
  Auth,
  Http,
  PaymentRequired,
  Protocol,
  Rpc,
  Unreachable,
  type PeerErrorReason
} from "@bowline/domain/peer/PeerError"

/** The reason of a failure without a word of the peer's: from one that has to sign what it says, nobody reads what is not signed. */
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
      return reason.code === undefined ? new Unreachable({ message: "The peer gives no good answer" }) : reason
    case "protocol":
      return new Protocol({ message: "The answer of the peer does not decode" })
    default:
      return reason
  }
}
