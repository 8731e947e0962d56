import { type Agent, request } from "node:http"
import { now } from "../server/Traffic.ts"

interface Seen {
  /** In milliseconds of `now`. */
  readonly at: number
  readonly data: { readonly [name: string]: unknown }
}

/** A stream of a plan that somebody reads. */
export interface FrameReader {
  /** The first frame of this name. Fails if the stream ends before. */
  readonly first: (event: string) => Promise<Seen>
  /** Settles when the gateway has answered. */
  readonly opened: Promise<void>
  readonly leave: () => void
}

/** Reads the frames of a plan: of a new one that is asked for with this body, else of the one whose events the URL names. */
export const readFrames = (url: string, agent: Agent, body?: object): FrameReader => {
  const seen = new Map<string, Seen>()
  const waiting = new Map<
    string,
    { readonly resolve: (frame: Seen) => void; readonly reject: (error: Error) => void }
  >()
  let failure: Error | undefined
  let rest = ""
  const take = (piece: string) => {
    const blocks = (rest + piece).split("\n\n")
    rest = blocks.pop() ?? ""
    for (const block of blocks) {
      const [, event = "", data = "{}"] = /^event: (.+)\ndata: (.+)$/m.exec(block) ?? []
      if (seen.has(event)) continue
      const frame: Seen = { at: now(), data: JSON.parse(data) as Seen["data"] }
      seen.set(event, frame)
      waiting.get(event)?.resolve(frame)
    }
  }
  const end = (error: Error) => {
    failure = error
    for (const { reject } of waiting.values()) reject(error)
  }
  const headers = { accept: "text/event-stream", "content-type": "application/json" }
  const asked = request(url, { agent, headers, method: body === undefined ? "GET" : "POST" })
  const opened = new Promise<void>((resolve, reject) => {
    asked
      .on("error", end)
      .on("error", reject)
      .on("response", (response) => {
        resolve()
        response
          .setEncoding("utf8")
          .on("data", take)
          .on("error", end)
          .on("end", () => end(new Error(`The stream has ended, ${response.statusCode}: ${rest}`)))
      })
  })
  asked.end(body === undefined ? undefined : JSON.stringify(body))
  return {
    first: (event) =>
      new Promise((resolve, reject) => {
        const frame = seen.get(event)
        if (frame !== undefined) resolve(frame)
        else if (failure !== undefined) reject(failure)
        else waiting.set(event, { resolve, reject })
      }),
    opened,
    leave: () => asked.destroy()
  }
}
