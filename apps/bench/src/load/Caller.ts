import { type Agent, request } from "node:http"
import { models, paced, type PlanRequest, quick, timed } from "../server/Traffic.ts"

const delta = "event: text.delta\n"

const post = (
  url: string,
  agent: Agent,
  model: string,
  {
    session,
    question = "What is the state of the order?"
  }: { readonly session?: string | undefined; readonly question?: string }
) => {
  const asked: PlanRequest = {
    question,
    preferences: { model },
    ...(session !== undefined && { session_id: session })
  }
  return request(`${url}/plan`, { agent, method: "POST", headers: { "content-type": "application/json" } }).end(
    JSON.stringify(asked)
  )
}

/** A question: the chunks of its answer, and its session, if it is not to have one of its own. */
interface Question {
  readonly chunks: number
  readonly session?: string
}

/** Asks, and reads the answer to its end. Gives the milliseconds to the first token. */
export const ask = (url: string, agent: Agent, { chunks, session }: Question): Promise<number> =>
  new Promise((resolve, reject) => {
    const began = performance.now()
    let firstToken = 0
    let text = ""
    post(url, agent, quick(chunks), { session })
      .on("error", reject)
      .on("response", (response) => {
        response.setEncoding("utf8")
        response.on("error", reject)
        response.on("data", (piece: string) => {
          text += piece
          if (firstToken === 0 && text.includes(delta)) firstToken = performance.now() - began
        })
        response.on("end", () => {
          const isWhole = text.split(delta).length - 1 === chunks && text.includes("event: done\n")
          if (isWhole) resolve(firstToken)
          else reject(new Error(`Not the whole answer, ${response.statusCode}:\n${text.slice(-500)}`))
        })
      })
  })

/** The whole text of the stream of an answer of so many words, at a model's pace. */
export const stream = (url: string, agent: Agent, words: number): Promise<string> =>
  new Promise((resolve, reject) => {
    post(url, agent, paced(words), {})
      .on("error", reject)
      .on("response", (response) => {
        const pieces: Array<Buffer> = []
        response.on("error", reject)
        response.on("data", (piece: Buffer) => pieces.push(piece))
        response.on("end", () => resolve(Buffer.concat(pieces).toString()))
      })
  })

/** Reads an answer of so many words, each of which says when it was sent, and passes that on as it comes. */
export const watch = (url: string, agent: Agent, words: number, told: (at: number) => void): Promise<void> =>
  new Promise((resolve, reject) => {
    let count = 0
    let rest = ""
    post(url, agent, timed(words), {})
      .on("error", reject)
      .on("response", (response) => {
        response.setEncoding("utf8")
        response.on("error", reject)
        response.on("data", (piece: string) => {
          const frames = (rest + piece).split("\n\n")
          rest = frames.pop() ?? ""
          for (const frame of frames) {
            if (!frame.includes(delta)) continue
            for (const [, at] of frame.matchAll(/@([\d.]+) /g)) {
              count++
              told(Number(at))
            }
          }
        })
        response.on("end", () => {
          if (count === words) resolve()
          else reject(new Error(`${count} of ${words} words came`))
        })
      })
  })

/** Opens a stream that never ends by itself. Settles at its first token, and gives what closes it. */
export const open = (url: string, agent: Agent, question: string): Promise<() => void> =>
  new Promise((resolve, reject) => {
    const asked = post(url, agent, models.slow, { question })
      .on("error", reject)
      .on("response", (response) => {
        let text = ""
        response.setEncoding("utf8")
        response.on("error", () => {})
        response.on("end", () => reject(new Error(`A slow stream ended, ${response.statusCode}:\n${text}`)))
        response.on("data", (piece: string) => {
          text = (text + piece).slice(-1_000)
          if (text.includes(delta)) resolve(() => asked.destroy())
        })
      })
  })
