import Negotiator from "negotiator"

/** Tells whether a caller prefers one JSON object to a stream. Between two equal preferences, the first one wins. */
export const prefersJson = (accept = ""): boolean => {
  // The answers have no parameters such as `charset`, but a range with parameters means them, too.
  const ranges = accept.replaceAll(/;(?!\s*q=)[^;,]*/gi, "")
  const negotiator = new Negotiator({ headers: { accept: ranges } })
  return negotiator.mediaType(["text/event-stream", "application/json"]) === "application/json"
}
