/** In front of the data of a thought that was redacted: signatures are base64, which has no colon. */
const redacted = "redacted_thinking:"

/** What stands for the signature of a thought that the provider shows to nobody. */
export const redactedSignature = (data: string): string => redacted + data

/** The block that a thought was, for the provider that signed it. */
export const fromSigned = (text: string, signature: string) =>
  signature.startsWith(redacted)
    ? { type: "redacted_thinking", data: signature.slice(redacted.length) }
    : { type: "thinking", thinking: text, signature }
