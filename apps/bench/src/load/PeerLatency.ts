import { Agent, request } from "node:http"
import type { Child } from "../process/Child.ts"
import { models, type PlanRequest } from "../server/Traffic.ts"
import { median, times } from "./LoadWindow.ts"

/** What the gateway adds to a call of a peer, as medians. */
export interface PeerLatency {
  /** Milliseconds. */
  readonly once: number
  readonly stream: number
  /** Of the call's own duration. */
  readonly poll: number
}

/** Asks a peer, and gives the milliseconds from the frame that says so to the one with its end. */
const call = (url: string, agent: Agent, peer: string, question: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const asked: PlanRequest = {
      question,
      agents: [
        {
          name: "peer",
          endpoint: peer,
          dialect: "a2a-0.3",
          streaming: question.startsWith("stream"),
          skills: [{ id: "ask" }]
        }
      ],
      preferences: { model: models.asking }
    }
    request(`${url}/plan`, { agent, method: "POST", headers: { "content-type": "application/json" } })
      .on("error", reject)
      .on("response", (response) => {
        let text = ""
        const at: { [event: string]: number } = {}
        response.setEncoding("utf8")
        response.on("error", reject)
        response.on("data", (piece: string) => {
          text += piece
          for (const event of ["task.started", "task.finished"]) {
            if (text.includes(`event: ${event}\n`)) at[event] ??= performance.now()
          }
        })
        response.on("end", () => {
          const { "task.started": started, "task.finished": finished } = at
          const isDone = text.includes('"state":"completed"') && text.includes("event: final\n")
          if (isDone && started !== undefined && finished !== undefined) resolve(finished - started)
          else reject(new Error(`The peer was not called, ${response.statusCode}:\n${text.slice(-1_000)}`))
        })
      })
      .end(JSON.stringify(asked))
  })

/** Durations that are spread evenly from 100 ms to 5 s, so that no length fits the polls by chance. */
const durations = Array.from({ length: 80 }, (_, index) => 100 + Math.round((index * 4_900) / 79))

export const peerLatency = async ({ url }: Child, peer: string): Promise<PeerLatency> => {
  const agent = new Agent({ keepAlive: true })
  const spread = async (kind: string, added: (took: number, duration: number) => number): Promise<number> => {
    const left = [...durations]
    return median(
      await times(durations.length, 8, async () => {
        const duration = left.shift() ?? 0
        return added(await call(url, agent, peer, `${kind} ${duration}`), duration)
      })
    )
  }
  const latency = {
    once: median(await times(50, 1, () => call(url, agent, peer, "once 0"))),
    stream: await spread("stream", (took, duration) => took - duration),
    poll: await spread("poll", (took, duration) => (took - duration) / duration)
  }
  agent.destroy()
  return latency
}
