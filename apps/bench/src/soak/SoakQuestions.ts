import { type Agent, type ClientRequest, type IncomingMessage, request } from "node:http"
import { setTimeout } from "node:timers/promises"
import { models, type PlanRequest } from "../server/Traffic.ts"

/** What becomes of a plan, as its caller sees it: `final`, an `error` with its code, `refused` with its status, `unsent`, `left`, or `lost` without an end. */
export type Outcome = string

interface Seen {
  text: string
  isOver: boolean
}

const headers = { "content-type": "application/json" }

/** The longest that a plan of the soak may take until its caller gives up, on a busy machine too: each has a deadline long before. */
const patience = 180_000
const longest = 60_000
const comeBackAfter = 500

/** Reads what comes, to the end of the connection. Gives the status, or why there is none. */
const read = (asked: ClientRequest, seen: Seen, onText: (text: string) => void): Promise<number | string> =>
  new Promise((resolve) => {
    asked.on("error", ({ message }) => resolve(message))
    asked.on("response", (response: IncomingMessage) => {
      response.setEncoding("utf8")
      response.on("data", (piece: string) => {
        seen.text += piece
        onText(seen.text)
      })
      response.on("error", () => {})
      response.on("close", () => {
        seen.isOver ||= seen.text.includes("event: done\n")
        resolve(response.statusCode ?? 0)
      })
    })
  })

const idIn = (text: string): string | undefined => /"plan_id":"([^"]+)"/.exec(text)?.[1]

const outcomeOf = (text: string): Outcome => {
  if (text.includes("event: final\n")) return "final"
  const [, code = "?"] = /event: error\ndata: \{.*?"code":"(\w+)"/.exec(text) ?? []
  return `error ${code}`
}

const ask = (url: string, agent: Agent, path: string, body?: object): ClientRequest =>
  request(`${url}${path}`, { agent, headers, method: body === undefined ? "GET" : "POST" }).end(
    body === undefined ? undefined : JSON.stringify(body)
  )

/** A caller that reads its plan to the end, and comes back if the stream ends before. */
const follow = async (
  url: string,
  agent: Agent,
  body: PlanRequest,
  onText: (text: string) => void = () => {}
): Promise<Outcome> => {
  const seen: Seen = { text: "", isOver: false }
  const until = performance.now() + patience
  const first = ask(url, agent, "/plan", body)
  const impatient = globalThis.setTimeout(() => first.destroy(), patience)
  const status = await read(first, seen, onText)
  clearTimeout(impatient)
  // The gateway may close a connection that was idle while a request is on its way.
  if (typeof status === "string" && first.reusedSocket) return follow(url, agent, body, onText)
  const id = idIn(seen.text)
  if (id === undefined) return typeof status === "number" ? `refused ${status}` : `unsent: ${status}`
  let last = status
  while (!seen.isOver && performance.now() < until) {
    await setTimeout(comeBackAfter)
    seen.text = ""
    last = await read(ask(url, agent, `/plans/${id}/events`), seen, () => {})
  }
  return seen.isOver ? outcomeOf(seen.text) : `lost ${id} after ${last} ${seen.text.slice(-200)}`
}

interface Where {
  readonly url: string
  readonly agent: Agent
  readonly peer: string
  readonly hangingPeer: string
}

const question = "What is the state of the order?"
const plain = { question, preferences: { model: models.faulty, timeout_ms: longest } }

const ofPeer = (peer: string, asked: string): PlanRequest => ({
  question: asked,
  agents: [
    { name: "peer", endpoint: peer, dialect: "a2a-0.3", streaming: asked.startsWith("stream"), skills: [{ id: "ask" }] }
  ],
  preferences: { model: models.asking, timeout_ms: longest, tool_timeout_ms: 2_000 }
})

/** A caller that closes its connection, at any instant. */
const leave = async ({ agent, url }: Where): Promise<Outcome> => {
  const asked = ask(url, agent, "/plan", plain)
  const reading = read(asked, { text: "", isOver: false }, () => {})
  await Promise.race([reading, setTimeout(Math.random() * 300)])
  asked.destroy()
  return "left"
}

/** A caller that cancels a plan that would go on for ever, and asks again while the gateway cannot do it. */
const cancel = async ({ agent, url }: Where): Promise<Outcome> => {
  let isTold = false
  const tell = async (id: string) => {
    const path = `/plans/${id}/cancel`
    while ((await read(ask(url, agent, path, {}), { text: "", isOver: false }, () => {})) !== 200)
      await setTimeout(comeBackAfter)
  }
  return follow(url, agent, { question, preferences: { model: models.slow, timeout_ms: longest } }, (text) => {
    const id = idIn(text)
    if (isTold || id === undefined || !text.includes("event: text.delta")) return
    isTold = true
    void tell(id)
  })
}

let sessions = 0

/** Two requests at once on one session. */
const both = async ({ agent, url }: Where): Promise<ReadonlyArray<Outcome>> => {
  const body = { ...plain, session_id: `soak ${sessions++ % 200}` }
  return Promise.all([follow(url, agent, body), follow(url, agent, body)])
}

const kinds: ReadonlyArray<
  readonly [weight: number, run: (where: Where) => Promise<Outcome | ReadonlyArray<Outcome>>]
> = [
  [60, ({ agent, url }) => follow(url, agent, plain)],
  [10, leave],
  [4, cancel],
  [4, ({ agent, url }) => follow(url, agent, { question, preferences: { model: models.slow, timeout_ms: 700 } })],
  [6, both],
  [5, ({ agent, peer, url }) => follow(url, agent, ofPeer(peer, "once 0"))],
  [5, ({ agent, peer, url }) => follow(url, agent, ofPeer(peer, "stream 300"))],
  [4, ({ agent, peer, url }) => follow(url, agent, ofPeer(peer, "poll 300"))],
  [2, ({ agent, hangingPeer, url }) => follow(url, agent, ofPeer(hangingPeer, "hang 0"))]
]
const total = kinds.reduce((sum, [weight]) => sum + weight, 0)

/** Asks for one plan of the mix, or for two. */
export const askSomething = async (where: Where): Promise<ReadonlyArray<Outcome>> => {
  let drawn = Math.random() * total
  const outcomes = await kinds.find(([weight]) => (drawn -= weight) < 0)?.[1](where)
  return typeof outcomes === "object" ? outcomes : [outcomes ?? "left"]
}
