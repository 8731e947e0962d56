import { systemClock } from "./Clock.ts"
import { makeIterator } from "./FrameLog.ts"
import { openStream, type PlanStream } from "./PlanStream.ts"
import {
  grace,
  type BowlineOptions,
  fullJitter,
  type Keyed,
  makeRequests,
  pathOf,
  randomKey,
  type Signal,
  type System
} from "./Requests.ts"
import type { Message, Session } from "./SessionWire.ts"
import type { Compacted, Plan, PlanRequest, PlanState, PlanSummary } from "./Wire.ts"
import type { Approval, PendingApproval, Waiting } from "./InboxWire.ts"
import type { Firing, NewSchedule, Schedule, ScheduleChange } from "./ScheduleWire.ts"
import type { Credential, ListedSession, McpServerStatus, Overview, Peer, Preset, Spending } from "./OperatorWire.ts"

export type { AcceptedEntry, Approval, NewEntry, PendingApproval, Waiting } from "./InboxWire.ts"
export type {
  Credential,
  Feedback,
  ListedSession,
  McpServerStatus,
  Overview,
  Peer,
  Preset,
  Spending
} from "./OperatorWire.ts"
export type { Firing, NewSchedule, Schedule, ScheduleChange, SchedulePlan, When } from "./ScheduleWire.ts"
export { BowlineError, type Issue } from "./BowlineError.ts"
export type { PlanStream, Said } from "./PlanStream.ts"
export type {
  ApprovalView,
  ArtifactView,
  AttemptView,
  CompactionView,
  Frame,
  NoticeView,
  OutcomeView,
  PlanView,
  RetryView,
  StepView,
  TaskView
} from "./PlanView.ts"
export { initialView } from "./PlanView.ts"
export { isPlanFrame, reduce } from "./Reduce.ts"
export type { BowlineOptions, Keyed, Signal, StreamEvent, System } from "./Requests.ts"
export type { Message, Session } from "./SessionWire.ts"
export type {
  AbortReason,
  Compacted,
  Failure,
  Final,
  Json,
  Plan,
  PlanFrame,
  PlanRequest,
  PlanState,
  PlanSummary,
  Stage,
  TaskState,
  Usage
} from "./Wire.ts"

/** A list: iterated, it is all its entries over all pages; `page` is one request, and gives the answer as it came. */
export interface List<Entry, Page> extends AsyncIterable<Entry> {
  readonly page: (cursor?: string, options?: Signal) => Promise<Page>
}

interface PageEnd {
  readonly next_cursor: string | null
}

/** What is asked of a list. */
export interface PageQuery {
  /** Entries of a page: 1 to 200, 50 if not given. */
  readonly limit?: number | undefined
  /** Where the list begins: the `next_cursor` of a page. */
  readonly cursor?: string | undefined
}

/** Sessions, those that were `created` last first, or those that were `active` last. */
export interface SessionsQuery extends PageQuery {
  readonly order?: "created" | "active" | undefined
}

/** Which plans a list has. Times in ISO 8601. */
export interface PlansQuery extends PageQuery {
  readonly session_id?: string | undefined
  readonly state?: PlanState | ReadonlyArray<PlanState> | undefined
  readonly model?: string | undefined
  readonly error_code?: string | undefined
  readonly since?: string | undefined
  readonly until?: string | undefined
  /** Why it was aborted. */
  readonly reason?: string | undefined
  /** Looks in the question. */
  readonly q?: string | undefined
  /** It has called this tool, this agent. */
  readonly tool?: string | undefined
  readonly agent?: string | undefined
  /** What anybody has said of it last. */
  readonly feedback?: "negative" | "positive" | "none" | undefined
  /** A label of that. */
  readonly label?: string | undefined
  /** `key=value`, all of them. */
  readonly metadata?: string | ReadonlyArray<string> | undefined
  /** For callers marked `admin`; `*` is everybody. */
  readonly caller?: string | undefined
}

/** What an overview counts: the plans that were created within 7 days at most; in the last 24 h, if nothing is given. Times in ISO 8601. */
export interface OverviewQuery {
  readonly since?: string | undefined
  readonly until?: string | undefined
  /** For callers marked `admin`, who get everybody's if they name nobody. */
  readonly caller?: string | undefined
}

/** What usage is added up: that of the UTC days (`2026-01-02`) from `from` to `to`, both included; of the last 30, if nothing is given. */
export interface UsageQuery {
  readonly from?: string | undefined
  readonly to?: string | undefined
  /** `day`, if not given. */
  readonly by?: "day" | "caller" | "model" | "preset" | undefined
  /** For callers marked `admin`, who get everybody's if they name nobody. */
  readonly caller?: string | undefined
}

/** Which calls that wait a list has. */
export interface ApprovalsQuery extends PageQuery {
  /** For callers marked `admin`. */
  readonly caller?: string | undefined
}

/** Which of what waits for somebody a list has. */
export interface WaitingQuery extends ApprovalsQuery {
  readonly kind?: Waiting["kind"] | undefined
}

/** How a plan is started. */
export type PlanOptions = Keyed

/** From where a plan is read. */
export interface AttachOptions extends Signal {
  /** The last frame that is known already. */
  readonly after?: number | undefined
}

/** The client of one gateway. */
export type Bowline = ReturnType<typeof makeBowline>

/**
 * As `createBowline`, with another clock.
 *
 * @example
 * ```ts
 * import type { makeBowline } from "@bowline/client"
 *
 * // For a clock of a test, or of another runtime: `@bowline/client/effect` is made so.
 * export type System = Parameters<typeof makeBowline>[0]
 * ```
 */
export const makeBowline = (system: System) => {
  const requests = makeRequests(system)
  const { call, settings } = requests

  const read = <A>(path: string, query?: object, options?: Signal): Promise<A> => call({ path, query }, options)
  const get = <A>(kind: string, id: string, options?: Signal): Promise<A> => read(pathOf(kind, id), undefined, options)
  const post = <A>(path: string, options?: Signal, body?: object, limitMs?: number): Promise<A> =>
    call({ method: "POST", path, body }, options, limitMs)

  const remove = (kind: string, id: string, options?: Signal): Promise<void> =>
    call({ method: "DELETE", path: pathOf(kind, id) }, options)

  const list = <Name extends string, Entry, Rest = PageEnd>(
    name: Name,
    query: { readonly cursor?: string | undefined } = {},
    options?: Signal,
    path = `/${name}`
  ): List<Entry, { readonly [name in Name]: ReadonlyArray<Entry> } & Rest> => {
    type Page = { readonly [name in Name]: ReadonlyArray<Entry> } & Rest & Partial<PageEnd>
    const page = (cursor = query.cursor, own: Signal | undefined = options): Promise<Page> =>
      read(path, { ...query, cursor }, own)
    async function* entries(signal: AbortSignal): AsyncGenerator<Entry, undefined, undefined> {
      let cursor: string | undefined
      do {
        const answer: Page = await page(cursor, { signal })
        yield* answer[name]
        cursor = answer.next_cursor ?? ""
      } while (cursor !== "")
    }
    return {
      page,
      /** Whoever leaves while a page is asked for ends that request. */
      [Symbol.asyncIterator]: () => {
        const leaving = new AbortController()
        const reading = entries(AbortSignal.any([leaving.signal].concat(options?.signal ?? [])))
        return makeIterator(
          () => reading.next(),
          () => {
            leaving.abort()
            return reading.return(undefined)
          }
        )
      }
    }
  }

  const start = (
    path: string,
    endsWithCaller: boolean,
    { idempotencyKey = randomKey(), signal }: PlanOptions = {},
    body?: object
  ): PlanStream => {
    const headers = { accept: "text/event-stream", "idempotency-key": idempotencyKey }
    return openStream(requests, { start: { method: "POST", path, headers, body }, endsWithCaller, signal })
  }

  return {
    /** Starts a plan, and reads it. */
    plan: (request: PlanRequest, options?: PlanOptions): PlanStream => {
      const { preferences = {} } = request
      const endsWithCaller = preferences.on_disconnect !== "continue"
      // A plan that hears the question was started with its own.
      const isOwn = endsWithCaller && preferences.on_busy !== "steer"
      const asked = { ...(isOwn && { on_disconnect: "cancel", disconnect_grace_ms: grace }), ...preferences }
      return start("/plan", endsWithCaller, options, { ...request, preferences: asked })
    },
    /** Reads a plan that somebody has started. Whoever leaves it leaves it alone. */
    attach: (planId: string, { after, signal }: AttachOptions = {}): PlanStream =>
      openStream(requests, { planId, after, endsWithCaller: false, signal }),
    plans: {
      /** Fails as the gateway would refuse the request, and starts nothing. What is stored is not looked at. */
      check: (request: PlanRequest, options?: Signal): Promise<void> => post("/plan/check", options, request),
      list: (query?: PlansQuery, options?: Signal) => list<"plans", PlanSummary>("plans", query, options),
      get: (planId: string, options?: Signal): Promise<Plan> => get("plans", planId, options),
      cancel: (planId: string, options?: Signal): Promise<Plan> => post(pathOf("plans", planId, "/cancel"), options),
      approve: (
        planId: string,
        taskId: string,
        decision: "approve" | "reject",
        { note, signal }: Signal & { readonly note?: string | undefined } = {}
      ): Promise<Approval> => post(pathOf("plans", planId, pathOf("approvals", taskId)), { signal }, { decision, note })
    },
    sessions: {
      list: (query?: SessionsQuery, options?: Signal) => list<"sessions", ListedSession>("sessions", query, options),
      get: (sessionId: string, options?: Signal): Promise<Session> => get("sessions", sessionId, options),
      messages: (sessionId: string, query?: PageQuery, options?: Signal) =>
        list<"messages", Message>("messages", query, options, pathOf("sessions", sessionId, "/messages")),
      /** Takes as long as the summary takes. */
      compact: (sessionId: string, options?: Signal): Promise<{ readonly compaction: Compacted | null }> =>
        post(pathOf("sessions", sessionId, "/compact"), options, undefined, settings.giveUpAfterMs),
      /** Drops what came after a message. */
      revert: (sessionId: string, toMessageId: string, options?: Signal): Promise<Session> =>
        post(pathOf("sessions", sessionId, "/revert"), options, { to_message_id: toMessageId }),
      delete: (sessionId: string, options?: Signal): Promise<void> => remove("sessions", sessionId, options)
    },
    inbox: {
      /** Says something to a plan. The answer names the plan that has it: with `moved` the next one of the session. */
      send: requests.accept
    },
    /** Plans that start by themselves. */
    schedules: {
      list: (query?: PageQuery, options?: Signal) => list<"schedules", Schedule>("schedules", query, options),
      get: (scheduleId: string, options?: Signal): Promise<Schedule> => get("schedules", scheduleId, options),
      create: (schedule: NewSchedule, options?: Signal): Promise<Schedule> => post("/schedules", options, schedule),
      /** Changes the fields that are given: `{paused: true}` pauses it. */
      update: (scheduleId: string, body: ScheduleChange, options?: Signal): Promise<Schedule> =>
        call({ method: "PATCH", path: pathOf("schedules", scheduleId), body }, options),
      delete: (scheduleId: string, options?: Signal): Promise<void> => remove("schedules", scheduleId, options),
      /** Starts its plan now, once more, and reads it. Whoever leaves it leaves it alone. */
      fire: (scheduleId: string, options?: PlanOptions): PlanStream =>
        start(pathOf("schedules", scheduleId, "/fire"), false, options),
      /** What became of its due times, the last one first. */
      firings: (scheduleId: string, query?: PageQuery, options?: Signal) =>
        list<"firings", Firing>("firings", query, options, pathOf("schedules", scheduleId, "/firings"))
    },
    waiting: {
      /** What waits for somebody, oldest first. */
      list: (query?: WaitingQuery, options?: Signal) => list<"waiting", Waiting>("waiting", query, options)
    },
    approvals: {
      list: (query?: ApprovalsQuery, options?: Signal) =>
        list<"approvals", PendingApproval>("approvals", query, options)
    },
    peers: {
      list: (options?: Signal) =>
        list<"peers", Peer, { readonly mcp_servers: ReadonlyArray<McpServerStatus> }>("peers", {}, options)
    },
    overview: (query?: OverviewQuery, options?: Signal): Promise<Overview> => read("/overview", query, options),
    /** What plans have used. */
    usage: (query?: UsageQuery, options?: Signal): Promise<{ readonly rows: ReadonlyArray<Spending> }> =>
      read("/usage", query, options),
    /** Files of the caller: `@bowline/client/files` has their other requests. */
    files: {
      /** The bytes of a file, as the answer of `fetch`. */
      content: (fileId: string, options?: Signal): Promise<Response> =>
        requests.send({ path: pathOf("files", fileId, "/content") }, options?.signal ?? null)
    },
    presets: {
      list: (options?: Signal) => list<"presets", Preset, object>("presets", {}, options)
    },
    credentials: {
      list: (options?: Signal) => list<"credentials", Credential, object>("credentials", {}, options),
      clear: (id: string, options?: Signal): Promise<Credential> => post(pathOf("credentials", id, "/clear"), options)
    }
  }
}

/**
 * The client of one gateway. Errors are `BowlineError`s, or the reason of the caller's signal, which ends every wait. Needs no more than
 * `fetch`: it runs in Node, browsers, Bun, Deno and workers.
 *
 * @example
 * ```ts
 * import { BowlineError, createBowline, type Frame, initialView, isPlanFrame, type Issue, reduce } from "@bowline/client"
 *
 * const bowline = createBowline({ baseUrl: "http://127.0.0.1:3774" })
 *
 * // What can be shown of a plan, anew with each frame.
 * export async function* views(question: string) {
 *   let view = initialView
 *   for await (const frame of bowline.plan({ question })) {
 *     yield (view = reduce(view, frame))
 *   }
 * }
 *
 * // Of what was stored elsewhere.
 * export const deltasOf = (frames: ReadonlyArray<Frame>): ReadonlyArray<string> =>
 *   frames.filter(isPlanFrame).flatMap(({ event, data }) => (event === "text.delta" ? [data.delta] : []))
 *
 * export const issuesOf = (error: unknown): ReadonlyArray<Issue> =>
 *   error instanceof BowlineError ? (error.issues ?? []) : []
 * ```
 */
export const createBowline = (options: BowlineOptions): Bowline =>
  makeBowline({ options, clock: systemClock, backoff: fullJitter(systemClock) })
