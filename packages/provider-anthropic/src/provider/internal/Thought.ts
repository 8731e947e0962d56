/** Marks the data of a redacted thought. Signatures are base64, which has no colon. */
const redacted = "redacted_thinking:"

/** The signature of a redacted thought, made of its data. */
export const redactedSignature = (data: string): string => redacted + data

/** The block of a thought, as the provider that signed it wants it back. */
export const fromSigned = (text: string, signature: string) =>
  signature.startsWith(redacted)
    ? { type: "redacted_thinking", data: signature.slice(redacted.length) }
    : { type: "thinking", thinking: text, signature }
