import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { InvalidRequest, type NotFound } from "@bowline/domain/plan/Refusal"
import type { Message } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { deletedPart, type QuestionPart, textOf } from "@bowline/domain/unstable/file/QuestionPart"
import type { GivenFork } from "@bowline/domain/unstable/plan/Fork"
import { Effect, Option, Result, Struct } from "effect"
import { callsIn } from "../planner/RecordedTools.ts"
import { all, allRows, recordsOf } from "../record/PlanExport.ts"
import type { FileStore } from "../store/FileStore.ts"
import { PlanStore, questionId, type Recorded } from "../store/PlanStore.ts"
import { SessionStore } from "../store/SessionStore.ts"
import * as StoredRequest from "../store/StoredRequest.ts"
import type { WholeQuestion } from "../file/QuestionFiles.ts"
import type { ToldMessage } from "./StoredPlan.ts"

/** How a plan is run again, with a question that is taken in. Where nobody has `files`, those of its own question have to be there. */
export type WantedFork = Omit<GivenFork, "question"> & {
  readonly whole?: WholeQuestion | undefined
  readonly files?: FileStore["Service"]
}

/** What a fork asks, and what its session begins with. */
export interface ForkedRequest {
  readonly request: PlanRequest
  readonly told: ReadonlyArray<ToldMessage>
}

const refuse = (field: string, message: string) => new InvalidRequest({ issues: [{ path: [field], message }] })

/** What the frames of a plan say: the step of each call, and what its prompt began with, if its version has recorded that. */
const readFrames = Effect.fnUntraced(function* (store: PlanStore["Service"], id: PlanId) {
  const rows = yield* allRows(store, id)
  const begin = rows.flatMap(recordsOf).find((record) => record.type === "begin")
  return { begin, steps: rows.length === 0 ? undefined : callsIn(rows).steps }
})

type Frames = Effect.Success<ReturnType<typeof readFrames>>

const callIn = ({ parts }: Message) => parts.find((part) => part.type === "tool_call")

/** The messages of the plan from its question on, up to before the step. */
const upTo = (plan: Plan, own: ReadonlyArray<Message>, step: number, { steps }: Frames): ReadonlyArray<Message> => {
  const stepOf = (message: Message) => steps?.get(callIn(message)?.task_id ?? "")
  // Of a fork: the calls that have come with it.
  const isBefore = (message: Message) =>
    steps !== undefined && callIn(message) !== undefined && stepOf(message) === undefined
  const first = own.findLastIndex(isBefore)
  const last = own.findLast(({ role }) => role === "assistant")
  let at = 0
  const end = own.findIndex((message, index) => {
    if (index <= first || message.role !== "assistant") return false
    const next = at + 1
    // In front of the answer that ends the plan may be steps whose answers were rejected.
    const isEnd = message === last && callIn(message) === undefined
    at = stepOf(message) ?? (isEnd ? Math.max(next, plan.steps) : next)
    return at >= step
  })
  return own.slice(0, end < 0 ? own.length : end)
}

/** The history that the plan has found, and what stood in place of what its prompt left out. */
const foundBy = (messages: ReadonlyArray<Message>, asked: number, { begin }: Frames) => {
  const place = (id: string | undefined) => messages.findIndex(({ message_id }) => message_id === id)
  const found = messages.slice(0, asked < 0 ? place(begin?.history?.last) + 1 : asked)
  if (begin === undefined) return { before: found, summary: "" }
  const { history, summary } = begin
  const texts = summary === undefined ? [] : [...summary.priors, summary.text ?? ""]
  return {
    before: history === null ? [] : found.slice(Math.max(place(history.first), 0)),
    summary: texts.filter((text) => text !== "").join("\n\n")
  }
}

const told = ({ parts, role }: Message): ToldMessage => ({ role, parts })

/** What the plan has found in its session, and its own messages there. */
const readHistory = Effect.fnUntraced(function* (
  store: PlanStore["Service"],
  sessions: SessionStore["Service"],
  { plan_id, session_id }: Pick<Plan, "plan_id" | "session_id">
) {
  const frames = yield* readFrames(store, plan_id)
  const messages = yield* all((page) => sessions.messages(session_id, page))
  const asked = messages.findIndex(({ message_id }) => message_id === questionId(plan_id))
  const own = asked < 0 ? [] : messages.slice(asked).filter((message) => message.plan_id === plan_id)
  return { ...foundBy(messages, asked, frames), frames, own }
})

/** What another plan is told to go on behind one that is over, in a session of its own. */
export interface Branch {
  readonly told: ReadonlyArray<ToldMessage>
  readonly prior_summary: string
}

/** Makes histories that end with a plan, whatever was said in its session since. */
export const makeBranch = Effect.gen(function* () {
  const store = yield* PlanStore
  const sessions = yield* SessionStore
  return Effect.fnUntraced(function* (
    caller: CallerName,
    id: PlanId
  ): Effect.fn.Return<Branch, NotFound | StorageError> {
    const plan = yield* store.get(caller, id)
    const { before, own, summary } = yield* readHistory(store, sessions, plan)
    return { told: [...before, ...own].map(told), prior_summary: summary }
  })
})

/** The request of the plan, as far as a fork has it, too. */
const requestOf = Effect.fnUntraced(function* (
  id: PlanId,
  { request: stored }: Recorded,
  isRecorded: boolean
): Effect.fn.Return<PlanRequest, InvalidRequest> {
  if (stored === null) {
    return yield* refuse("plan_id", "An earlier version has stored the plan without its request: it cannot be forked")
  }
  const restored = isRecorded
    ? Result.fromOption(StoredRequest.restoreOffline(stored), (): StoredRequest.Lack => "shape")
    : StoredRequest.restore({ request: stored, secrets: null }, id, Option.none())
  if (Result.isSuccess(restored)) return restored.success
  return yield* restored.failure === "shape"
    ? refuse("plan_id", "This version cannot read the request of the plan, which another version has stored")
    : refuse("tools", "A secret of its agents or MCP servers is gone since the plan ended. Expected recorded")
})

/** The question of the plan, with a line in the place of each file that was deleted since. */
const questionOf = Effect.fnUntraced(function* (
  files: FileStore["Service"],
  caller: CallerName,
  { question, question_parts: asked }: PlanRequest
): Effect.fn.Return<WholeQuestion, StorageError> {
  if (asked === undefined) return { question }
  const parts = yield* Effect.forEach(asked, (part): Effect.Effect<QuestionPart, StorageError> =>
    part.type === "text"
      ? Effect.succeed(part)
      : files.find(caller, part.file_id).pipe(
          Effect.as(part),
          Effect.catchTag("NotFound", () => Effect.succeed(deletedPart(part.name)))
        )
  )
  const hasFiles = parts.some(({ type }) => type === "file")
  return { question: textOf(parts), ...(hasFiles && { question_parts: parts }) }
})

/** Makes requests for plans that go on from a step of another plan of the caller. */
export const make = Effect.gen(function* () {
  const store = yield* PlanStore
  const sessions = yield* SessionStore
  return Effect.fnUntraced(function* (
    caller: CallerName,
    id: PlanId,
    { files, instructions, model, preferences, preset, step: given, tools = "recorded", whole }: WantedFork
  ): Effect.fn.Return<ForkedRequest, InvalidRequest | NotFound | StorageError> {
    const plan = yield* store.get(caller, id)
    const steps = Math.max(plan.steps, 1)
    const step = given ?? steps
    if (step > steps) return yield* refuse("step", `Expected 1 to ${steps}: so many steps has the plan`)
    const was = yield* requestOf(id, yield* store.recorded(caller, id), tools === "recorded")
    const { before, frames, own, summary } = yield* readHistory(store, sessions, plan)
    if (own.length === 0 && step > 1) return yield* refuse("step", "Expected 1: the plan's own messages are reverted")
    const [, ...rest] = upTo(plan, own, step, frames)
    const wanted: WholeQuestion =
      whole ?? (files ? yield* questionOf(files, caller, was) : Struct.pick(was, ["question", "question_parts"]))
    const { question: text, question_parts } = wanted
    const parts = question_parts ?? [{ type: "text" as const, text }]
    const again: ToldMessage = { role: "user", parts, isQuestion: true }
    const begins = rest.length === 0 ? [] : [again, ...rest.map(told)]
    const kept = Struct.omit(was, ["session_id", "question", "question_parts", "task_message", "legs", "asker", "fork"])
    return {
      request: {
        ...kept,
        ...wanted,
        history: [],
        ...(summary !== "" && { prior_summary: summary }),
        ...(instructions !== undefined && { instructions }),
        ...(preset !== undefined && { preset }),
        preferences: { ...was.preferences, ...preferences, ...(model !== undefined && { model }) },
        fork: { plan_id: id, step, tools }
      },
      // A plan that makes one call reads no history.
      told: was.call === undefined ? [...before.map(told), ...begins] : []
    }
  })
})
