import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Waiting } from "@bowline/domain/plan/Inbox"
import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import type { InvalidRequest } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { formatPath } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { type EntryKey, Inbox } from "@bowline/runtime/plan/Inbox"
import { Plans } from "@bowline/runtime/plan/Plans"
import * as QuestionFiles from "@bowline/runtime/unstable/file/QuestionFiles"
import { Effect, Option, Schema } from "effect"
import { isDeepStrictEqual } from "node:util"
import { invalid } from "../../http/Refusals.ts"
import type { Placed, Spoken } from "../question/GivenFiles.ts"

/** The result of a call that the client has made, and where the body says it. */
export interface GivenResult {
  readonly path: string
  readonly task_id: TaskId
  readonly content: Schema.Json
  readonly is_error?: boolean
  /** Where the body has the parts of the content, if it has parts. */
  readonly parts?: ReadonlyArray<Placed> | undefined
}

/** What a request brings to a plan that waits. */
export interface Brought {
  /** Where the body says it. */
  readonly path: string
  readonly results: ReadonlyArray<GivenResult>
  /** The calls in front of the results, where the request repeats them: each one that waits needs its result. */
  readonly calls?: ReadonlyArray<TaskId>
  /** What the user says besides. */
  readonly texts: ReadonlyArray<Spoken>
  /** The tools that the client has now, if the body says it: they hold from the next step on. */
  readonly tools?: ReadonlyArray<ClientTool> | undefined
}

/** How a request goes on with a plan. */
export interface Resuming {
  readonly isAgain?: boolean
  readonly of?: PlanId | undefined
  /** The key of what the user says besides. Where it is given, a plan that waits for none of the results is not resumed: the user asks it, or another one. */
  readonly keyIn?: ((plan: PlanId) => Effect.Effect<EntryKey, StorageError>) | undefined
  /** What is wrong with the tools, under the names of the body. */
  readonly renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>
}

const prefix = "call_"
export const callId = (task: TaskId): string => `${prefix}${task}`

const decodeTaskId = Schema.decodeUnknownOption(TaskId)

/** The call of this id, if the gateway may have made it. */
export const taskOf = (id: string): Option.Option<TaskId> =>
  id.startsWith(prefix) ? decodeTaskId(id.slice(prefix.length)) : Option.none()

/** Names what is wrong with one of the parts by the place where the body has it. */
export const placedIn =
  (parts: ReadonlyArray<Placed>, otherwise = "") =>
  ({ message, path: [, index] }: InvalidRequest["issues"][number]): Issue => ({
    path: parts[Number(index)]?.path ?? otherwise,
    message
  })

/** Passes results of clients on to the plans that wait for them. */
export const make = Effect.gen(function* () {
  const inbox = yield* Inbox
  const plans = yield* Plans
  const { takeQuestion } = yield* QuestionFiles.make

  /** What the user says, as a text and the stored files behind it. */
  const takeText = Effect.fnUntraced(function* (caller: CallerName, { parts, text }: Spoken) {
    if (parts === undefined) return { text }
    const taken = yield* takeQuestion(
      caller,
      parts.map(({ part }) => part)
    ).pipe(Effect.catchTag("InvalidRequest", ({ issues }) => Effect.fail(invalid(issues.map(placedIn(parts))))))
    const files = (taken.question_parts ?? []).flatMap((part) => (part.type === "file" ? [part.file_id] : []))
    // A text is not blank: one of files alone has their lines.
    return { text: text.trim() === "" ? taken.question : text, ...(files.length > 0 && { files }) }
  })

  /** The caller's plan that has made all of these calls. */
  const find = Effect.fnUntraced(function* (caller: CallerName, tasks: ReadonlyArray<TaskId>) {
    const found = new Set<PlanId | undefined>()
    for (const task of tasks) found.add(Option.getOrUndefined(yield* inbox.planOfCall(caller, task)))
    return found.size === 1 ? Array.from(found)[0] : undefined
  })

  const give = Effect.fnUntraced(function* (
    caller: CallerName,
    plan: PlanId,
    { results, texts, tools }: Brought,
    { keyIn, renamed }: Pick<Resuming, "keyIn" | "renamed">
  ) {
    const by = { caller, isAdmin: false }
    // In one order, so that of two requests at once one is refused as a whole.
    const sorted = results.toSorted((a, b) => (a.task_id < b.task_id ? -1 : 1))
    const calls = sorted.map(({ task_id }) => task_id).join()
    // Before anything is stored: of two results of one call the first would hold.
    const other = results.find(({ task_id, ...result }, index) =>
      results.slice(0, index).some((one) => one.task_id === task_id && !isDeepStrictEqual(one.content, result.content))
    )
    if (other !== undefined) {
      return yield* invalid([{ path: other.path, message: `Expected one result for ${callId(other.task_id)}` }])
    }
    const said = yield* Effect.forEach(
      texts.filter(({ parts, text }) => parts !== undefined || text.trim() !== ""),
      (one) => takeText(caller, one)
    )
    // First: the plan cannot go on without them. A request that comes again brings the same texts.
    for (const [index, { text, files }] of said.entries()) {
      const content = files === undefined ? text : [text, ...files].join(" ")
      const key = keyIn === undefined ? `${calls} ${index} ${content}` : yield* keyIn(plan)
      const entry = { type: "text", text, ...(files && { files }), when: "boundary", else: "ask" } as const
      yield* inbox.accept(by, plan, entry, key)
    }
    for (const [index, { parts, path, ...result }] of sorted.entries()) {
      // The plan goes on with the last one.
      const along = index === sorted.length - 1 ? tools : undefined
      yield* inbox.accept(by, plan, { type: "result", ...result }, undefined, along).pipe(
        Effect.catchTag("InvalidRequest", ({ issues }) =>
          Effect.fail(
            invalid(
              issues.flatMap((issue) => {
                const { message, path: at } = issue
                if (at[0] === "tools") return renamed([{ path: formatPath(at), message }])
                return [parts === undefined ? { path, message } : placedIn(parts, path)(issue)]
              })
            )
          )
        )
      )
    }
  })

  /** Refuses some of the results that the plan waits for without the others, or its calls without any. */
  const expectAll = Effect.fnUntraced(function* (items: ReadonlyArray<Waiting>, { calls, path, results }: Brought) {
    const given = new Set(results.map(({ task_id }) => task_id))
    const missing = items.filter(({ task_id }) => !given.has(task_id))
    const isOfOthers = missing.length === items.length && !missing.some(({ task_id }) => calls?.includes(task_id))
    if (missing.length === 0 || isOfOthers) return
    const ids = missing.map(({ task_id }) => callId(task_id)).join(", ")
    return yield* invalid([{ path, message: `Expected results for all calls: there is none for ${ids}` }])
  })

  return {
    find,
    /**
     * Gives the results to the plan that waits for them, and returns that. Undefined if there is none, or if it is over: then they are history.
     * A request that comes again (`isAgain`) joins a plan that has ended by itself. If it
     * names the plan (`of`), it is no other one.
     */
    resume: Effect.fnUntraced(
      function* (caller: CallerName, brought: Brought, { isAgain = false, keyIn, of, renamed }: Resuming) {
        const { calls = [], results } = brought
        const plan = yield* find(caller, results.length === 0 ? calls : results.map(({ task_id }) => task_id))
        if (plan === undefined || (of ?? plan) !== plan) return undefined
        const stored = yield* plans.get(caller, plan)
        const isOver = isSettled(stored)
        const { items } = yield* inbox.waiting(caller, { kind: "result", plan }, { limit: 1_000 })
        const waits = items.some((wait) => results.some(({ task_id }) => task_id === wait.task_id))
        if (keyIn !== undefined && !waits) return undefined
        yield* expectAll(items, brought)
        if (results.length === 0) return undefined
        if (isOver && (!isAgain || stored.error?.reason === "disconnect")) return undefined
        yield* give(caller, plan, isOver ? { ...brought, texts: [] } : brought, { keyIn, renamed })
        return stored
      },
      // It ends, or is deleted, at this instant.
      Effect.catchTags({
        NotFound: () => Effect.undefined,
        EntryRefused: (refused) => (refused.code === "plan_over" ? Effect.undefined : Effect.fail(refused))
      })
    ),
    /** Refuses to go on behind a plan that waits for results, without any of them: it would wait for as long as the plan does. */
    expect: Effect.fnUntraced(function* (caller: CallerName, plan: PlanId, path: string) {
      const { items } = yield* inbox.waiting(caller, { kind: "result", plan }, { limit: 1_000 })
      yield* expectAll(items, { path, results: [], calls: items.map(({ task_id }) => task_id), texts: [] })
    }),
    /** Whether no call of the plan runs: one of them may not have told yet that it has begun. */
    isIdle: (caller: CallerName, plan: PlanId) =>
      plans.get(caller, plan).pipe(
        Effect.map((stored) => stored.stage !== "tool"),
        Effect.orElseSucceed(() => false)
      )
  }
})
export type ClientResults = Effect.Success<typeof make>
