import type { HttpServerRequest } from "effect/http"
import { type BinaryLike, createHash } from "node:crypto"

/** A strong validator of a content, which has to be different for each encoding of it. */
export const of = (content: BinaryLike): string => `"${createHash("sha256").update(content).digest("base64url")}"`

/** Tells whether the client has the content already, so that a 304 is enough. Its date counts for a client that names no validator. */
export const isKnown = (
  { headers }: Pick<HttpServerRequest.HttpServerRequest, "headers">,
  etag: string,
  modified?: Date
): boolean => {
  const { "if-modified-since": since, "if-none-match": tags } = headers
  if (tags === undefined && since !== undefined && modified !== undefined) {
    return Date.parse(since) >= Math.floor(modified.getTime() / 1_000) * 1_000
  }
  const known = (tags ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""))
  return known.includes(etag) || known.includes("*")
}
