import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, PlanId } from "@bowline/domain/plan/Plan"
import { SessionBusy } from "@bowline/domain/plan/Refusal"
import * as Usage from "@bowline/domain/plan/Usage"
import { MessageId, type NewMessage } from "@bowline/domain/session/Message"
import { ExternalSessionId, SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import { SessionCompaction } from "@bowline/runtime/plan/SessionCompaction"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import * as Forks from "@bowline/runtime/unstable/plan/Forks"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Clock, Duration, Effect, Schema, Struct } from "effect"
import { HttpServerResponse } from "effect/http"
import { budgetSpent, invalid, Refused } from "../../http/Refusals.ts"
import { given } from "../openai/ChatSampling.ts"
import { listed, type OpenAiPlans } from "../openai/OpenAiPlans.ts"
import * as CompactionInput from "./CompactionInput.ts"
import * as ConversationItems from "./ConversationItems.ts"
import * as ItemReferences from "./ItemReferences.ts"
import * as PreviousResponse from "./PreviousResponse.ts"
import { compactionItem } from "./ResponseItems.ts"
import { usageOf } from "./ResponseObject.ts"
import { itemsOf } from "./SessionItems.ts"
import type { StoredResponses } from "./StoredResponses.ts"

const Body = Schema.Struct({
  model: Schema.String,
  previous_response_id: given(Schema.String),
  input: given(CompactionInput.Input)
}).check(
  Schema.makeFilter(({ input, previous_response_id = null }) =>
    (input ?? "").length === 0 && previous_response_id === null
      ? { path: ["input"], issue: "Expected items to compact, or previous_response_id" }
      : undefined
  )
)
const decodeBody = Schema.decodeUnknownEffect(Body, { errors: "all", onExcessProperty: "ignore" })

/** How long the session of a compaction is kept whose process dies: longer than it may take. */
const keptFor = Duration.toMillis("1 hour")

type Said = Pick<NewMessage, "parts" | "role">

/** An answer of a plan in parts, as a client would tell it. Reasoning of plans is left out. */
const inParts = ({ parts, role }: Said): ReadonlyArray<Said> =>
  role === "assistant"
    ? parts.flatMap((part) => (part.type === "reasoning" ? [] : [{ role, parts: [part] }]))
    : [{ role, parts }]

/** Compacts the session of a response, or items of a client, and gives what a prompt has of it from now on, as items that another request may begin with. */
export const make = Effect.fnUntraced(function* (stored: StoredResponses, openAi: OpenAiPlans) {
  const isLast = yield* PreviousResponse.makeIsLast
  const sessions = yield* SessionStore
  const compaction = yield* SessionCompaction
  const uuid = yield* UuidGenerator
  const branchBehind = yield* Forks.makeBranch
  const previousOf = yield* PreviousResponse.make(stored)
  const resolve = ItemReferences.make(stored)
  const readInput = CompactionInput.make(yield* ConversationItems.make)

  /** Compacts the session, and reads it. */
  const compact = Effect.fnUntraced(function* (caller: CallerName, session_id: SessionId, plan_id: PlanId) {
    const compacted = yield* compaction.compact(caller, session_id)
    const { agents } = yield* sessions.find(caller, session_id)
    const { priors, text } = yield* sessions.summary(session_id)
    const summary = [...priors, text ?? ""].filter((part) => part !== "").join("\n\n")
    const items = itemsOf(
      yield* sessions.history(session_id),
      agents.map(({ name }) => name)
    )
    return {
      id: `resp_${plan_id}`,
      object: "response.compaction" as const,
      created_at: Math.floor((yield* Clock.currentTimeMillis) / 1_000),
      output: summary === "" ? items : [compactionItem(plan_id, summary), ...items],
      usage: usageOf(compacted?.usage ?? Usage.empty)
    }
  })

  /** The same of a session that is there only meanwhile. */
  const compactAlone = Effect.fnUntraced(function* (
    caller: CallerName,
    summaries: ReadonlyArray<string>,
    messages: ReadonlyArray<Said>
  ) {
    const id = uuid()
    const session_id = SessionId.make(`session_${id}`)
    const now = yield* Clock.currentTimeMillis
    const open = sessions.open(caller, {
      session_id,
      external_session_id: ExternalSessionId.make(`compaction_${id}`),
      metadata: {},
      messages: messages.map((message) => ({ message_id: MessageId.make(`msg_${uuid()}`), ...message })),
      prior_summary: summaries.filter((text) => text !== "").join("\n\n"),
      at: fromMillis(now),
      expires_at: fromMillis(now + keptFor)
    })
    return yield* Effect.acquireUseRelease(
      open,
      () => compact(caller, session_id, PlanId.make(`plan_${id}`)),
      // If the database is away, it expires.
      () => Effect.ignore(sessions.delete(session_id), { log: "Warn", message: "storage_failed" })
    )
  })

  return Effect.fnUntraced(
    function* (sent: Readonly<Record<string, unknown>>) {
      const caller = yield* Caller
      const body = yield* Effect.mapError(decodeBody(yield* resolve(caller, sent)), (error) =>
        invalid(fromSchema(error))
      )
      yield* openAi.expectModel(body.model)
      const { input = null, previous_response_id = null } = body
      const previous = previous_response_id === null ? undefined : yield* previousOf(caller, previous_response_id, true)
      const unknown = Object.keys(Struct.omit(sent, Struct.keys(Body.fields)))
      const told = input === null ? undefined : yield* readInput(caller, input)
      if (previous !== undefined && !isSettled(previous)) {
        return yield* new SessionBusy({ message: "The response that it follows is not over" })
      }
      const addsNothing = told === undefined || (told.messages.length === 0 && told.summary === "")
      const isOwn = previous !== undefined && addsNothing && (yield* isLast(caller, previous))
      const before = previous === undefined || isOwn ? undefined : yield* branchBehind(caller, previous.plan_id)
      const { output, ...compacted } = isOwn
        ? yield* compact(caller, previous.session_id, previous.plan_id)
        : yield* compactAlone(
            caller,
            [before?.prior_summary ?? "", told?.summary ?? ""],
            [...(before?.told ?? []).flatMap(inParts), ...(told?.messages ?? [])]
          )
      const ignored = [...unknown, ...(told?.ignored ?? [])]
      return HttpServerResponse.jsonUnsafe(
        { ...compacted, output: [...(told?.instructions ?? []), ...output] },
        ignored.length === 0 ? {} : { headers: { "x-bowline-ignored": listed(ignored) } }
      )
    },
    Effect.catchTags({
      NoSummary: ({ message }) => Effect.fail(new Refused({ code: "unavailable", detail: message })),
      BudgetSpent: (spent) => Effect.fail(budgetSpent(spent))
    })
  )
})
