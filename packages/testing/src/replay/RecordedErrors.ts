import * as PeerErrors from "@bowline/domain/peer/PeerError"
import * as ProviderErrors from "@bowline/domain/provider/ProviderError"
import { type Fields, fieldsOf, type RecordedCall, written } from "./RecordFile.ts"

/** Errors come back as what they were: their classes decide what may be tried again. */
const reviving = (module: object) => {
  const classes = new Map<string, new (fields: Fields) => object>()
  for (const made of Object.values(module) as ReadonlyArray<unknown>) {
    if (typeof made !== "function" || !/^[A-Z]/.test(made.name)) continue
    const Made = written<new (fields: Fields) => object>(made)
    const tag = fieldsOf(new Made({ message: "", reason: {} }))["_tag"]
    if (typeof tag === "string") classes.set(tag, Made)
  }
  return (reason: Fields): object | undefined => {
    const Made = classes.get(String(reason["_tag"]))
    return Made && new Made(reason)
  }
}

const providerReason = reviving(ProviderErrors)
export const peerReason = reviving(PeerErrors)

export const providerError = (failure: Fields) =>
  new ProviderErrors.ProviderError({
    reason: written(providerReason(failure) ?? new ProviderErrors.Unknown({ message: "" }))
  })
export const peerError = (reason: Fields) =>
  new PeerErrors.PeerError({ reason: written(peerReason(reason) ?? new PeerErrors.Protocol({ message: "" })) })

/** Whether an approval was resolved as its time was over. A caller may reject a call with the same note. */
export const isExpired = ({ by, note }: Fields): boolean => by === "nobody" && note === "expired"

/** Whether the time of a call was over before it was sent. */
export const isUnsent = ({ error }: RecordedCall): boolean =>
  error?.message.endsWith("were over before the call could leave.") === true
