import type { Usage } from "@bowline/domain/plan/Usage"
import type { SessionId } from "@bowline/domain/session/Session"
import { LruCache } from "../process/LruCache.ts"

/** Tokens of the shortest prompt that providers cache; Claude's newer models need more. */
export const leastCached = (model: string): number => (/claude/i.test(model) ? 4_096 : 1_024)

/** For how long every provider that caches keeps a prompt that nobody reads, in milliseconds. */
const keptMs = 300_000

/** Of how many sessions this process knows the last prompt. */
const maxSessions = 10_000

interface Prompt {
  readonly model: string
  readonly tokens: number
  readonly at: number
}

/**
 * The last prompt of each session: what its provider can have cached. The next step reads it from there, unless its model, its instructions, its tools or
 * its history have changed, or its requests go to another key.
 */
export class PromptCache {
  readonly #prompts = new LruCache<SessionId, Prompt>(maxSessions)

  /**
   * A step of the session has its answer. Gives the tokens that it could have read from the cache, if it has read less than half of them. `now` is a time
   * of `Monotonic`.
   */
  answered(session: SessionId, model: string, usage: Usage, now: number): number | undefined {
    const before = this.#prompts.get(session)
    this.#prompts.set(session, { model, tokens: usage.input_tokens, at: now })
    if (before?.model !== model || now - before.at >= keptMs || before.tokens < leastCached(model)) return undefined
    const cacheable = Math.min(before.tokens, usage.input_tokens)
    return usage.cached_input_tokens < cacheable / 2 ? cacheable : undefined
  }

  /** The history of the session was replaced by a summary: its next prompt is another one. */
  forget(session: SessionId): void {
    this.#prompts.delete(session)
  }
}
