import type { HttpServerRequest } from "effect/http"
import { type BinaryLike, createHash } from "node:crypto"

/** A strong validator of a content, which has to be different for each encoding of it. */
export const of = (content: BinaryLike): string => `"${createHash("sha256").update(content).digest("base64url")}"`

/** Tells whether the client has the content already, so that a 304 is enough. */
export const isKnown = ({ headers }: HttpServerRequest.HttpServerRequest, etag: string): boolean => {
  const known = (headers["if-none-match"] ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""))
  return known.includes(etag) || known.includes("*")
}
