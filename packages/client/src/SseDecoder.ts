import { errorOf } from "./BowlineError.ts"

/** What a stream of Server-Sent Events consists of. `id` is that of the block itself, not of an earlier one. */
export type SseEvent =
  | { readonly comment: string }
  | { readonly id: string | undefined; readonly event: string; readonly data: string }

const maxBlock = 8 * 1_024 * 1_024

/**
 * Decodes Server-Sent Events (WHATWG HTML 9.2) from bytes that may be cut anywhere: in a code point, in a line end, in a block. A
 * block that has not ended is no event. Throws `frame_too_large` if one has more than 8 Mi characters.
 */
export const makeDecoder = () => {
  const utf8 = new TextDecoder()
  let line = ""
  let isBehindCr = false
  let size = 0
  let id: string | undefined
  let event = ""
  let data: string | undefined

  const endBlock = (): SseEvent | undefined => {
    const block = data === undefined ? undefined : { id, event: event || "message", data }
    id = undefined
    event = ""
    data = undefined
    size = 0
    return block
  }

  const endLine = (): SseEvent | undefined => {
    const [whole, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    line = ""
    if (whole === "") return endBlock()
    if (field === "") return { comment: value.trim() }
    if (field === "data") data = data === undefined ? value : `${data}\n${value}`
    if (field === "event") event = value
    if (field === "id" && !value.includes("\0")) id = value
    return undefined
  }

  return (bytes: Uint8Array): ReadonlyArray<SseEvent> => {
    const decoded = utf8.decode(bytes, { stream: true })
    if (decoded === "") return []
    const text = isBehindCr && decoded.startsWith("\n") ? decoded.slice(1) : decoded
    isBehindCr = decoded.endsWith("\r")
    const found: Array<SseEvent> = []
    const pieces = text.split(/\r\n|\n|\r/)
    for (const [i, piece] of pieces.entries()) {
      line += piece
      size += piece.length
      if (size > maxBlock) throw errorOf("frame_too_large", "A frame is too large")
      // The last piece goes on in the next bytes.
      const one = i < pieces.length - 1 ? endLine() : undefined
      if (one !== undefined) found.push(one)
    }
    return found
  }
}
