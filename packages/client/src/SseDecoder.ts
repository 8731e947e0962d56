import { BowlineError } from "./BowlineError.ts"

/** What a stream of Server-Sent Events consists of. `id` is that of the block itself, not of an earlier one. */
export type SseEvent =
  | { readonly comment: string }
  | { readonly id: string | undefined; readonly event: string; readonly data: string }

const maxBlock = 8 * 1_024 * 1_024

const lineEnd = /\r\n|\n|\r/g

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

  const expectRoom = (): void => {
    if (size <= maxBlock) return
    const message = `A frame has more than ${maxBlock} characters`
    throw new BowlineError({ code: "frame_too_large", message, retryable: false })
  }

  const endBlock = (): SseEvent | undefined => {
    const block = data === undefined ? undefined : { id, event: event === "" ? "message" : event, data }
    id = undefined
    event = ""
    data = undefined
    size = 0
    return block
  }

  const endLine = (text: string): SseEvent | undefined => {
    expectRoom()
    if (text === "") return endBlock()
    const colon = text.indexOf(":")
    if (colon === 0) return { comment: text.slice(1).trim() }
    const field = colon === -1 ? text : text.slice(0, colon)
    const value = colon === -1 ? "" : text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1)
    if (field === "data") data = data === undefined ? value : `${data}\n${value}`
    else if (field === "event") event = value
    else if (field === "id" && !value.includes("\0")) id = value
    return undefined
  }

  return (bytes: Uint8Array): ReadonlyArray<SseEvent> => {
    const decoded = utf8.decode(bytes, { stream: true })
    if (decoded === "") return []
    const text = isBehindCr && decoded.startsWith("\n") ? decoded.slice(1) : decoded
    isBehindCr = decoded.endsWith("\r")
    const found: Array<SseEvent> = []
    let start = 0
    for (const { 0: end, index } of text.matchAll(lineEnd)) {
      // What came before of the line is only joined here: a long line may come in many pieces.
      const whole = line + text.slice(start, index)
      size += whole.length - line.length
      line = ""
      start = index + end.length
      const one = endLine(whole)
      if (one !== undefined) found.push(one)
    }
    const rest = text.slice(start)
    line += rest
    size += rest.length
    expectRoom()
    return found
  }
}
