import type { Bowline } from "../Bowline.ts"
import { BowlineError } from "../BowlineError.ts"
import { sleep, systemClock } from "../Clock.ts"
import type { PlanStream } from "../PlanStream.ts"
import { grace, type Signal } from "../Requests.ts"
import type { Json, PlanFrame, PlanRequest } from "../Wire.ts"
import type { Leg, UiFold } from "./UiFold.ts"

/** What a chat asks with, besides its question. */
export interface ChatOptions {
  readonly bowline: Bowline
  /** The preset of its plans. */
  readonly preset?: string | undefined
  /** More of what its plans are asked with: agents, MCP servers, preferences. */
  readonly request?: Omit<PlanRequest, "question" | "session_id"> | undefined
}

type QuestionPart = Exclude<PlanRequest["question"], string>[number]

/** A file of a message by its URL: its bytes, one that the gateway has, or one that it fetches. */
export const fileAt = (url: string, mediaType: string | undefined, name?: string): QuestionPart => {
  const [head = "", data] = url.startsWith("data:") ? url.split(",", 2) : []
  if (data !== undefined) {
    const media_type = mediaType ?? (/^data:([^;,]+)/.exec(head)?.[1] || "application/octet-stream")
    return { type: "file", data, media_type, ...(name && { name }) }
  }
  // Whether another URL is one of the gateway's own the gateway says.
  const [, file_id] = /^\/files\/(file_[\da-f-]+)\/content$/.exec(url) ?? []
  return file_id === undefined ? { type: "file", url } : { type: "file", file_id }
}

const questionOf = (parts: ReadonlyArray<QuestionPart>): PlanRequest["question"] => {
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []))
  return texts.length === parts.length ? texts.join("\n\n") : parts
}

export interface Question {
  /** What is asked: texts, and files. */
  readonly parts: ReadonlyArray<QuestionPart>
  /** The chat's own id of the question: with it the question can be asked again. */
  readonly id: string
  /** The question takes the place of the one that was asked under its id before. */
  readonly isAgain: boolean
  /** The chat asks although a plan of it still waits for a decision. */
  readonly interrupts: boolean
  /** What the chat says of this plan alone. */
  readonly own: unknown
}

export interface ChatDecision {
  readonly taskId: string
  readonly decision: "approve" | "reject"
  readonly note: string | undefined
}

/** The result of a call of the page's own tool. */
export interface ChatResult {
  readonly taskId: string
  readonly content: Json
  readonly isError: boolean
}

export type ChatAnswer = ChatDecision | ChatResult

/** The calls that were decided about, and those that have a result now. */
export const callsOf = (answers: ReadonlyArray<ChatAnswer>) => {
  const idsOf = (isDecision: boolean) =>
    new Set(answers.flatMap((answer) => ("decision" in answer === isDecision ? [answer.taskId] : [])))
  return { decided: idsOf(true), given: idsOf(false) }
}

export const hasAnswer = <A>(answers: ReadonlyArray<A>): answers is readonly [A, ...ReadonlyArray<A>] =>
  answers.length > 0

export const refusal = (message: string): BowlineError =>
  new BowlineError({ code: "invalid_request", message, retryable: false })

const isRequest = (own: unknown): own is Partial<PlanRequest> => typeof own === "object" && own !== null

/** What a plan of a chat does when nobody reads it: a reload may take its time. */
const stays = { on_disconnect: "cancel", disconnect_grace_ms: grace } as const

/** How long a decision that is stored may take to arrive behind its request. */
const arrivesWithinMs = 100

/**
 * The events of a plan, up to its end, or up to where only a decision is waited for. `decided` are the calls that were decided about just now.
 * The signal ends the plan as well, unless it runs on without its caller.
 */
export async function* readEvents<Event>(
  open: OpenPlan,
  fold: UiFold<Event>,
  decided: ReadonlySet<string>,
  signal?: AbortSignal
): AsyncGenerator<Event, void, undefined> {
  let { plan } = open
  let reading = plan[Symbol.asyncIterator]()
  /** Texts that the plan has accepted before its leg begins are of earlier ones. */
  let isBehind = open.leg?.entry === undefined
  const leave = () => {
    void reading.return?.()
    if (open.endsWithCaller) void plan.cancel()
  }
  const endsAt = async ({ data, event }: PlanFrame): Promise<boolean> => {
    if (event !== "inbox.accepted") return false
    if (isBehind) return (await Promise.all(open.said)).includes(data.entry_id)
    isBehind = data.entry_id === open.leg?.entry
    return false
  }
  signal?.addEventListener("abort", leave)
  if (signal?.aborted === true) leave()
  try {
    for (;;) {
      const next = reading.next()
      const read = await (fold.waits(decided) ? Promise.race([next, waitShortly()]) : next)
      signal?.throwIfAborted()
      if (read === undefined) return yield* fold.pause(decided)
      if (read.done === true) {
        if (fold.movedTo === undefined) return
        plan = open.follow(fold.movedTo)
        reading = plan[Symbol.asyncIterator]()
        fold.follow()
        continue
      }
      if (await endsAt(read.value)) return yield* fold.end()
      await open.files.load(read.value, signal)
      yield* fold.next(read.value)
    }
  } catch (error) {
    if (!(error instanceof BowlineError)) throw error
    yield* fold.fail(error.code, error.message)
  } finally {
    signal?.removeEventListener("abort", leave)
    void reading.return?.()
  }
}

const waitShortly = async (): Promise<undefined> => {
  await sleep(systemClock, new AbortController().signal, arrivesWithinMs)
  return undefined
}

/** A larger file has its URL alone, where a page gets it with its key. */
const maxInline = 8_388_608

/** How long a file may take: the stream waits for it. */
const loadsWithinMs = 10_000

const toBase64 = (bytes: Uint8Array): string => {
  const pieces = Array.from({ length: Math.ceil(bytes.length / 32_768) }, (_, index) =>
    String.fromCharCode(...bytes.subarray(index * 32_768, (index + 1) * 32_768))
  )
  return btoa(pieces.join(""))
}

/** The files that the tools of a plan have given, as URLs that a page can show without a key: `data:` URLs, 8 MiB together. */
const shownFiles = ({ files }: Bowline) => {
  const urls = new Map<string, string>()
  let left = maxInline
  return {
    urlOf: (fileId: string): string | undefined => urls.get(fileId),
    /** Loads the file of a frame, if it has one. A file that is gone, or does not come, is told by its line alone. */
    load: async ({ data, event }: PlanFrame, signal?: AbortSignal): Promise<void> => {
      if (event !== "task.artifact" || data.file_id === undefined || urls.has(data.file_id)) return
      const waiting = AbortSignal.any([AbortSignal.timeout(loadsWithinMs)].concat(signal ?? []))
      try {
        const response = await files.content(data.file_id, { signal: waiting })
        if (Number(response.headers.get("content-length")) > left) {
          urls.set(data.file_id, response.url)
          await response.body?.cancel()
          return
        }
        const bytes = new Uint8Array(await response.arrayBuffer())
        left -= bytes.length
        urls.set(data.file_id, `data:${data.media_type};base64,${toBase64(bytes)}`)
      } catch {
        // Its line stands for it.
      }
    }
  }
}

/** A plan of a chat, and the part of it that answers one question. */
export interface OpenPlan {
  readonly plan: PlanStream
  readonly endsWithCaller: boolean
  readonly leg?: Leg | undefined
  readonly files: ReturnType<typeof shownFiles>
  /** The entries of what the chat says to the plan; undefined for a question that has become a plan. */
  readonly said: Array<Promise<string | undefined>>
  /** Reads the next plan, which answers what this one could not hear any more. */
  readonly follow: (planId: string) => PlanStream
}

/** The text that a running plan has heard, if that is what the answer begins with. */
const entryOf = ({ value }: IteratorResult<PlanFrame, undefined>): string | undefined =>
  value?.event === "inbox.accepted" ? value.data.entry_id : undefined

/** Starts and finds the plans of chats, whose ids are the sessions, and passes decisions on. */
export const makeChatPlans = ({ bowline, preset, request }: ChatOptions) => {
  /** The plans that are read here: also while they wait for a decision, so that they are not without a reader. */
  const open = new Map<string, OpenPlan>()

  const keep = (
    chat: string,
    plan: PlanStream,
    own: unknown,
    { leg, said = [] }: Partial<Pick<OpenPlan, "leg" | "said">> = {}
  ): OpenPlan => {
    const { preferences = request?.preferences } = isRequest(own) ? own : {}
    const follow = (planId: string) => keep(chat, bowline.attach(planId), own, { said: [] }).plan
    const endsWithCaller = preferences?.on_disconnect !== "continue"
    const kept = { plan, endsWithCaller, leg, files: shownFiles(bowline), said, follow }
    open.set(chat, kept)
    const forget = () => {
      if (open.get(chat) === kept) open.delete(chat)
    }
    // Whoever waits for the result reads on: the end of a chat's stream is no end of the plan.
    plan.result().then(forget, forget)
    return kept
  }

  const newest = async (chat: string, options?: Signal) => {
    try {
      return (await bowline.plans.list({ session_id: chat }, options).page()).plans
    } catch (error) {
      if (error instanceof BowlineError && error.code === "not_found") return []
      throw error
    }
  }

  const isOver = ({ state }: { readonly state: string }): boolean =>
    state !== "queued" && state !== "running" && state !== "waiting"

  /** Drops a question from its session, with all that came after it. */
  const drop = async (chat: string, questionId: string, options: Signal): Promise<void> => {
    const plans = await newest(chat, options)
    if (!plans.every(isOver)) {
      const message = "The chat has a plan that is not over: stop it, or wait for its end"
      throw new BowlineError({ code: "session_busy", message, retryable: true, status: 409 })
    }
    const asked = plans.find(({ metadata }) => metadata["message_id"] === questionId)
    if (asked === undefined) return
    let before: string | undefined
    for await (const { message_id, plan_id } of bowline.sessions.messages(chat, { limit: 200 }, options)) {
      if (plan_id === asked.plan_id) break
      before = message_id
    }
    if (before === undefined) await bowline.sessions.delete(chat, options)
    else await bowline.sessions.revert(chat, before, options)
  }

  /** The plan that waits for an answer about this call. */
  const waitingFor = async (taskId: string): Promise<string> => {
    for await (const { plan_id, task_id } of bowline.waiting.list()) if (task_id === taskId) return plan_id
    throw refusal(`Nothing waits for an answer about ${taskId}`)
  }

  const send = async (planId: string, answer: ChatAnswer): Promise<void> => {
    const { taskId } = answer
    if ("decision" in answer) {
      await bowline.plans.approve(planId, taskId, answer.decision, { note: answer.note })
      return
    }
    const { content, isError } = answer
    const entry = { type: "result", task_id: taskId, content, ...(isError && { is_error: true }) } as const
    try {
      await bowline.inbox.send(planId, entry)
    } catch (error) {
      // Another page was faster: its result counts.
      if (!(error instanceof BowlineError) || error.code !== "task_settled") throw error
    }
  }

  return {
    /** Fails as the gateway refuses it. */
    ask: async (
      chat: string,
      { id, interrupts, isAgain, own, parts }: Question,
      { signal }: Signal
    ): Promise<OpenPlan> => {
      const given = { ...request, ...(isRequest(own) ? own : {}) }
      const asked: PlanRequest = {
        ...(preset !== undefined && { preset }),
        ...given,
        metadata: { ...given.metadata, message_id: id.slice(0, 512) },
        preferences: {
          ...(given.preferences?.on_disconnect !== "continue" && stays),
          on_busy: isAgain ? "reject" : interrupts ? "interrupt" : "steer",
          ...given.preferences
        },
        question: questionOf(parts),
        session_id: chat
      }
      if (isAgain) {
        await bowline.plans.check(asked, { signal })
        await drop(chat, id, { signal })
      }
      // The signal of the request ends the plan only until it has begun: `readEvents` knows of the later ones.
      const starting = new AbortController()
      const leave = () => starting.abort(signal?.reason)
      signal?.addEventListener("abort", leave)
      if (signal?.aborted === true) leave()
      const begin = async (preferences: PlanRequest["preferences"]): Promise<OpenPlan> => {
        const before = open.get(chat)
        const plan = bowline.plan({ ...asked, ...(preferences && { preferences }) }, { signal: starting.signal })
        const first = plan[Symbol.asyncIterator]()
        const heard = first.next().then(entryOf)
        const said = before?.said ?? []
        said.push(heard.catch(() => undefined))
        const entry = await heard
        // From its start: what was before says in what state the plan is where the answer begins.
        const kept =
          entry === undefined
            ? keep(chat, plan, own)
            : keep(chat, bowline.attach(await plan.planId), own, { leg: { entry }, said })
        void first.return?.()
        return kept
      }
      try {
        return await begin(asked.preferences)
      } catch (error) {
        // It wants something else than the plan has that runs: it waits behind that.
        const isOther = error instanceof BowlineError && error.code === "invalid_request"
        if (!isOther || given.preferences?.on_busy !== undefined || isAgain || interrupts) throw error
        return await begin({ ...asked.preferences, on_busy: "queue" })
      } finally {
        signal?.removeEventListener("abort", leave)
      }
    },
    /** The plan that goes on behind the answers. */
    answer: async (
      chat: string,
      answers: readonly [ChatAnswer, ...ReadonlyArray<ChatAnswer>],
      own: unknown,
      known?: string
    ): Promise<OpenPlan> => {
      const kept = open.get(chat)
      const planId = known ?? (await kept?.plan.planId) ?? (await waitingFor(answers[0].taskId))
      for (const answer of answers) await send(planId, answer)
      if (kept !== undefined && (await kept.plan.planId) === planId) return kept
      return keep(chat, bowline.attach(planId), own)
    },
    /** What runs in the chat, if anything does. */
    running: async (chat: string, own: unknown): Promise<OpenPlan | undefined> => {
      const plan = (await newest(chat)).find((one) => !isOver(one))
      return plan === undefined ? undefined : keep(chat, bowline.attach(plan.plan_id), own)
    }
  }
}
