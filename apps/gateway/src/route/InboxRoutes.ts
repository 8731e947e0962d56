import { Decision } from "@bowline/domain/plan/Approval"
import { NewEntry } from "@bowline/domain/plan/Inbox"
import { EntryId } from "@bowline/domain/plan/Outcome"
import { PlanId } from "@bowline/domain/plan/Plan"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { Effect, Schema, SchemaTransformation } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { Accounts } from "../http/ConnectedAccounts.ts"
import { ownersOf } from "../http/BearerAuthorization.ts"
import { IsAdmin } from "../http/KnownCallers.ts"
import { answer, idOf } from "../http/Refusals.ts"
import { readJson } from "../http/RequestBody.ts"

const planId = idOf(PlanId, "plan")
const entryId = idOf(EntryId, "entry")
const waitId = Effect.fnUntraced(function* (plan: string, task: string) {
  return { plan_id: yield* idOf(PlanId, "approval")(plan), task_id: yield* idOf(TaskId, "approval")(task) }
})

const types: ReadonlyArray<unknown> = NewEntry.members.map(({ fields }) => fields.type.schema.literal)

/** The body of what is said to a plan. Of one that has no `type`, or none that there is, that is named rather than the whole body. */
const EntryBody = Schema.Record(Schema.String, Schema.Unknown)
  .check(
    Schema.makeFilter(
      ({ type }) => types.includes(type) || { path: ["type"], issue: `Expected ${types.join(" or ")}` },
      undefined,
      true
    )
  )
  .pipe(Schema.decodeTo(NewEntry, SchemaTransformation.passthrough({ strict: false })))

/** Takes what is said to plans, and shows what waits for somebody. */
export const layer = HttpApiBuilder.group(
  Api,
  "inbox",
  Effect.fnUntraced(function* (handlers) {
    const inbox = yield* Inbox
    const { maxBody } = yield* GatewayConfig
    const findOwners = yield* ownersOf
    const readDecision = readJson(Decision, maxBody)
    const readEntry = readJson(EntryBody, maxBody)
    const granted = yield* Accounts
    const decider = Effect.all({ caller: Caller, isAdmin: IsAdmin })

    return handlers
      .handleRaw("accept", ({ headers, params, request }) =>
        Effect.gen(function* () {
          const entry = yield* readEntry(request)
          const plan = yield* planId(params.id)
          const accepted = yield* inbox.accept(yield* decider, plan, entry, headers["idempotency-key"])
          return HttpServerResponse.jsonUnsafe(accepted, { status: 202 })
        }).pipe(answer)
      )
      .handle("entries", ({ params, query }) =>
        Effect.gen(function* () {
          const plan = yield* planId(params.id)
          const { items, next } = yield* inbox.list(yield* decider, plan, query)
          return { entries: items, next_cursor: next }
        }).pipe(answer)
      )
      .handle("withdraw", ({ params }) =>
        Effect.gen(function* () {
          const plan = yield* planId(params.id)
          const entry = yield* entryId(params.entry_id)
          yield* inbox.withdraw(yield* decider, plan, entry)
        }).pipe(answer)
      )
      .handle("waiting", ({ query: { caller: named, kind, ...page } }) =>
        Effect.gen(function* () {
          const filter = kind === undefined ? {} : { kind }
          const { items, next } = yield* inbox.waiting(yield* findOwners(named), filter, page)
          const waiting = items.map((one) =>
            one.kind === "account" && one.url !== null && granted !== undefined
              ? { ...one, url: granted.freshen(one.url) }
              : one
          )
          return { waiting, next_cursor: next }
        }).pipe(answer)
      )
      .handle("approvals", ({ query: { caller: named, ...page } }) =>
        Effect.gen(function* () {
          const { items, next } = yield* inbox.approvals(yield* findOwners(named), page)
          return { approvals: items, next_cursor: next }
        }).pipe(answer)
      )
      .handleRaw("decide", ({ params, request }) =>
        Effect.gen(function* () {
          const decision = yield* readDecision(request)
          const wait = yield* waitId(params.id, params.task_id)
          const standing = yield* inbox.decide(yield* decider, wait, decision)
          return HttpServerResponse.jsonUnsafe({ ...wait, ...standing })
        }).pipe(answer)
      )
  })
)
