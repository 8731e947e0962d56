import type { Message } from "@bowline/domain/session/Message"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { kept } from "./ContextBudget.ts"
import { fairShare, toTokens } from "./Shorten.ts"
import type { CountTokens, Weighed } from "./TokenEstimate.ts"

export type HistoryEntry = Pick<Message, "role" | "parts">

/** A result of which only head and tail stay. */
export interface Shortening {
  readonly message: number
  readonly part: number
  readonly tokens: number
}

/** Which messages of a history go into the summary, and which results of the rest are shortened. */
export interface Cut {
  /** Messages at the head that the summary replaces. */
  readonly covered: number
  /** The question of the running plan is among them: it is asked again, in front of the steps that stay. */
  readonly asksAgain: boolean
  readonly shortened: ReadonlyArray<Shortening>
  /** Tokens of what stays, with the question that is asked again. */
  readonly tokens: number
}

/** Tokens: a result that is shortened to less is useless. */
const leastResult = 256

const sum = (tokens: ReadonlyArray<number>): number => tokens.reduce((total, one) => total + one, 0)

/**
 * Whether a history can be cut at a place: no call in front of it has its result behind it. A call of the running plan without a
 * result still waits for one; any other may never get one.
 */
const pairs = (messages: ReadonlyArray<HistoryEntry>, own: number): ((at: number) => boolean) => {
  const answered = new Map<TaskId, number>()
  for (const [at, { parts }] of messages.entries()) {
    for (const part of parts) if (part.type === "tool_result") answered.set(part.task_id, at)
  }
  const waits = messages.map(({ parts }, at) => {
    const until = parts.map((part) =>
      part.type === "tool_call" ? (answered.get(part.task_id) ?? (at >= own ? Infinity : at)) : at
    )
    return Math.max(at, ...until)
  })
  let open = -1
  const openUntil = waits.map((until) => (open = Math.max(open, until)))
  return (at) => (openUntil[at - 1] ?? -1) < at
}

/** Shortens the results that a cut leaves, so that the rest has at most `target` tokens; undefined if it cannot. */
const shorten = (messages: ReadonlyArray<Weighed<HistoryEntry>>, cut: Cut, target: number): Cut | undefined => {
  const results = messages.flatMap((weighed, message) =>
    weighed.message.parts.flatMap((part, index) =>
      message >= cut.covered && part.type === "tool_result"
        ? [{ message, part: index, tokens: weighed.parts[index] ?? 0 }]
        : []
    )
  )
  const sizes = results.map(({ tokens }) => tokens)
  const tokens = fairShare(sizes, target - (cut.tokens - sum(sizes)))
  const long = results.filter((result) => result.tokens > tokens)
  if (tokens < leastResult || long.length === 0) return undefined
  const saved = sum(long.map((result) => result.tokens - tokens))
  return { ...cut, shortened: long.map((one) => ({ ...one, tokens })), tokens: cut.tokens - saved }
}

/** The cut without a summary: every message stays, and the results are shortened until all of them fit. */
export const shortenResults = (messages: ReadonlyArray<Weighed<HistoryEntry>>, room: number): Cut | undefined =>
  shorten(
    messages,
    { covered: 0, asksAgain: false, shortened: [], tokens: sum(messages.map(({ tokens }) => tokens)) },
    room
  )

/**
 * Decides where to cut a history that is too long. `size` is the number of tokens of the window, or of a refused prompt; the
 * messages may have `room` of them. Whole turns go, except the newest ones that fit into 30 % of the size. If the running plan
 * alone is too long, its oldest steps go; if its last step alone is too long, the results in it are shortened. Gives undefined
 * if a cut gains nothing.
 */
export const decide = (given: {
  readonly messages: ReadonlyArray<Weighed<HistoryEntry>>
  /** The place of the running plan's question, which stays in the prompt; undefined if no plan runs. */
  readonly question: number | undefined
  readonly size: number
  readonly room: number
}): Cut | undefined => {
  const { messages, room } = given
  const keep = Math.min(kept(given.size), room)
  const entries = messages.map(({ message }) => message)
  const weights = messages.map(({ tokens }) => tokens)
  const end = messages.length
  const own = given.question ?? end
  const isClosed = pairs(entries, own)
  const places = Array.from({ length: end }, (_, at) => at + 1).filter(isClosed)
  const question = weights[own] ?? 0
  const before = [0]
  for (const [at, tokens] of weights.entries()) before.push((before[at] ?? 0) + tokens)
  const all = before[end] ?? 0

  const at = (covered: number): Cut => {
    const asksAgain = covered > own
    return { covered, asksAgain, shortened: [], tokens: all - (before[covered] ?? 0) + (asksAgain ? question : 0) }
  }

  if (all <= keep) return undefined
  const turns = places.filter((place) => place <= own && (place === end || entries[place]?.role === "user"))
  const steps = places.filter((place) => place > own + 1 && entries[place]?.role === "assistant")
  const lastTurn = turns.at(-1)
  const lastStep = steps.at(-1)
  const fits = (limit: number) => (place: number) => at(place).tokens <= limit
  const whole =
    turns.find(fits(keep)) ??
    turns.slice(-1).find(fits(room)) ??
    steps.find(fits(keep)) ??
    steps.slice(-1).find(fits(room))
  if (whole !== undefined) return at(whole)
  const base = at(lastStep ?? lastTurn ?? 0)
  const short = shorten(messages, base, keep) ?? shorten(messages, base, room)
  if (short !== undefined) return short
  // Not even the last step can stay: the summary tells the model about it.
  return own + 1 < end && places.at(-1) === end && fits(room)(end) ? at(end) : undefined
}

/** The messages that stay after a cut, without the question that is asked again. */
export const rest = <A extends Pick<Message, "role" | "parts">>(
  count: CountTokens,
  messages: ReadonlyArray<A>,
  { covered, shortened }: Cut
): ReadonlyArray<A> =>
  messages.slice(covered).map((message, index) => {
    const own = shortened.filter((one) => one.message === covered + index)
    if (own.length === 0) return message
    const parts = message.parts.map((part, index) => {
      const limit = own.find((one) => one.part === index)
      if (limit === undefined || part.type !== "tool_result") return part
      return { ...part, content: toTokens(count, part.content, limit.tokens) }
    })
    return { ...message, parts }
  })
