import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, PlanId } from "@bowline/domain/plan/Plan"
import type { ExternalSessionId } from "@bowline/domain/session/Session"
import { type ClientTool, type PlanRequest, type ResolvedRequest, resolve } from "@bowline/domain/plan/PlanRequest"
import {
  type HopsExceeded,
  type IdempotencyConflict,
  InvalidRequest,
  NotAccepting,
  type SessionBusy
} from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Effect, Exit, Fiber, FiberSet, Layer, Schedule, type Schema } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import * as SentFiles from "../asking/SentFiles.ts"
import { AccountGrants } from "../auth/AccountGrants.ts"
import { CallerTokens, hasTokens } from "../auth/CallerTokens.ts"
import { ArrivedToken, AskerFacts } from "../config/AskerFacts.ts"
import { EnvironmentSecrets } from "../config/EnvironmentSecrets.ts"
import { GatewayId } from "../config/GatewayId.ts"
import { hostOf, narrow, Permissions } from "../config/Permissions.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import * as Presets from "../config/Presets.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { direct, type Route } from "../remote/PeerClient.ts"
import type { Idempotency, PlanExists } from "../store/Idempotency.ts"
import { Notices } from "../store/Notices.ts"
import { type PlanSession, PlanStore } from "../store/PlanStore.ts"
import type { NewFiring } from "../store/ScheduleStore.ts"
import { SecretKey } from "../store/SecretKey.ts"
import { SessionStore } from "../store/SessionStore.ts"
import * as StoredRequest from "../store/StoredRequest.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as Admission from "./Admission.ts"
import { outdate, supersede } from "./Cancellation.ts"
import { Creations } from "./Creations.ts"
import * as Hops from "./Hops.ts"
import * as LeftTasks from "./LeftTasks.ts"
import * as PlanWebhooks from "./PlanWebhooks.ts"
import type { ToldMessage } from "./StoredPlan.ts"
import { chainOf, type RunningPlan, RunningPlans } from "./RunningPlans.ts"

/** A question, and who asks it. */
export interface Asked {
  readonly caller: CallerName
  readonly request: PlanRequest
  /** The JSON that the request was decoded of. Its caller can read it later, without secrets. If not given, the request is written again. */
  readonly sent?: unknown
  /** The gateways that have passed the plan on to here, if any. */
  readonly route?: Route | undefined
  /** What the protocol in which the caller asks repeats of the request later. It is stored with the plan, as it is: without secrets. */
  readonly echo?: Schema.Json | undefined
  /** The idempotency key of the request, if it has one. */
  readonly idempotency?: Idempotency | undefined
  /** The due time of a schedule that the plan is started for: it is a conflict if that has been fired. */
  readonly firing?: NewFiring | undefined
  /** With `false`, a key that stands for a plan already is a conflict, also with the same body. */
  readonly joins?: boolean
  /** The caller goes on in a chat: plans of the session end as soon as nobody reads them, instead of having their grace. */
  readonly chat?: Chat | undefined
  /**
   * The plan runs in a session of its own, which is deleted as soon as the plan is over. It begins with what the session of the request
   * says, which keeps nothing of the plan, nor waits for it.
   */
  readonly leavesNothing?: boolean | undefined
  /** What the session of a fork begins with. */
  readonly told?: ReadonlyArray<ToldMessage> | undefined
  /** See `NewPlan`. */
  readonly follows?: PlanId | undefined
}

/** How a question goes on in a chat. */
export interface Chat {
  /**
   * The plan takes the place of those that were asked with the same `echo`: as it is accepted, their questions and all that came after them are
   * dropped. It is refused while another plan of the session runs.
   */
  readonly replaces: boolean
  /** The fields of the request that its caller has named: only these have to be as in the plan that is to hear the question. */
  readonly named: Readonly<Record<string, unknown>>
  /** The tools of the client, if it has named any: they hold for a plan that is to hear the question, too. */
  readonly tools: ReadonlyArray<ClientTool> | undefined
  /** The key of the entry that the question becomes in a plan that is to hear it. */
  readonly keyIn: (plan: PlanId) => Effect.Effect<string, StorageError>
}

/** A request whose session, if it has one, is only read: what it says comes with the request. */
interface Apart {
  readonly request: PlanRequest
  /** The messages with which the session of the plan begins; undefined if they are those of the request. */
  readonly told?: ReadonlyArray<ToldMessage> | undefined
}

/** How long a plan that replaces others waits for those that nobody reads. */
const endWithin = "500 millis"
const soon = Schedule.spaced("20 millis")

/** The caller disconnected before the plan was stored. Nobody reads the plan yet. */
const disconnect = (start: Fiber.Fiber<RunningPlan, unknown>) =>
  Effect.flatMap(Fiber.await(start), (exit) =>
    Exit.isSuccess(exit) ? Effect.scoped(exit.value.live.attach(0)) : Effect.void
  )

/** Checks requests, stores their plans, and starts them. */
export class NewPlans extends Context.Service<
  NewPlans,
  {
    /** Refuses what `start` refuses before it looks at what is stored. */
    readonly check: (asked: Asked) => Effect.Effect<void, InvalidRequest | HopsExceeded | NotAccepting>
    /** A caller that is interrupted before `use` counts as a reader that has disconnected from the plan. */
    readonly start: <A, R>(
      asked: Asked,
      use: (plan: RunningPlan) => Effect.Effect<A, never, R>
    ) => Effect.Effect<
      A,
      InvalidRequest | HopsExceeded | SessionBusy | NotAccepting | IdempotencyConflict | PlanExists | StorageError,
      R
    >
    /** Ends the plans of a session of this name that nobody reads. One that is read runs on. */
    readonly endUnread: (
      caller: CallerName,
      session: ExternalSessionId | undefined
    ) => Effect.Effect<void, StorageError>
    /** The plan, if it runs here. Waits for a plan that this process is about to run, and that may be stored already. */
    readonly find: (id: PlanId) => Effect.Effect<RunningPlan | undefined>
    /** Whether the plan runs here, or is about to. */
    readonly isKnown: (id: PlanId) => boolean
  }
>()("@bowline/runtime/plan/NewPlans") {
  static readonly layer = Layer.effect(
    NewPlans,
    Effect.gen(function* () {
      const config = yield* PlansConfig
      const store = yield* PlanStore
      const running = yield* RunningPlans
      const gateway = yield* GatewayId
      const uuid = yield* UuidGenerator
      const starts = yield* FiberSet.make()
      const creations = yield* Creations.make(starts)
      const check = yield* makeCheck
      const secretKey = yield* SecretKey
      const notices = yield* Notices
      const sessions = yield* SessionStore
      const cancelLeft = yield* LeftTasks.makeCancelLeft
      const tokens = yield* CallerTokens

      const cancelDropped = ({ dropped, session_id }: PlanSession, caller: CallerName) =>
        sessions.find(caller, session_id).pipe(
          Effect.flatMap(({ agents }) => cancelLeft(caller, agents, dropped)),
          Effect.ignore({ log: "Warn", message: "remote_task_not_cancelled" })
        )

      const apart = Effect.fnUntraced(function* (
        caller: CallerName,
        asked: PlanRequest
      ): Effect.fn.Return<Apart, StorageError> {
        const { prior_summary, session_id: name, ...rest } = asked
        const request = { ...rest, session_ttl_ms: 0 }
        const finding = name === undefined ? Effect.undefined : sessions.find(caller, name)
        const known = yield* Effect.catchTag(finding, "NotFound", () => Effect.undefined)
        if (known === undefined) {
          return { request: { ...request, ...(prior_summary !== undefined && { prior_summary }) } }
        }
        const { session_id } = known
        const [told, { priors, text }] = yield* Effect.all([sessions.history(session_id), sessions.summary(session_id)])
        const summaries = [...priors, text ?? "", prior_summary ?? ""].filter((summary) => summary !== "")
        return {
          request: { ...request, history: [], ...(summaries.length > 0 && { prior_summary: summaries.join("\n\n") }) },
          told
        }
      })

      const endUnread = Effect.fnUntraced(
        function* (caller: CallerName, name: ExternalSessionId | undefined) {
          if (name === undefined) return
          const { session_id } = yield* sessions.find(caller, name)
          const open = yield* outdate(notices, store, caller, { session_id })
          const isOver = (id: PlanId) => Effect.map(store.get(caller, id), isSettled)
          yield* Effect.forEach(open, (id) =>
            Effect.repeat(isOver(id), { until: (over) => over, schedule: soon })
          ).pipe(Effect.timeoutOption(endWithin))
        },
        Effect.catchTag("NotFound", () => Effect.void)
      )

      /** Wakes who waits for what continues a task. A notice that is lost only delays them. */
      const tell = (plan_id: PlanId | undefined) =>
        plan_id === undefined
          ? Effect.void
          : FiberSet.run(starts, Effect.ignore(notices.publish([{ _tag: "Advanced", plan_id }])))

      /** The plan may need it long after its caller has gone. Somebody else, such as an admin, may have come with the request that starts it. */
      const keepToken = Effect.fnUntraced(function* (caller: CallerName, preset: Presets.Preset, request: PlanRequest) {
        const token = yield* ArrivedToken
        if (token?.caller === caller && Presets.needsToken(preset, request)) yield* tokens.keep(token, true)
      })

      const start = Effect.fnUntraced(function* (given: Asked) {
        const { caller, request: wanted, route: came = direct, sent, chat, leavesNothing, ...kept } = given
        const { request: asked, told = kept.told } =
          leavesNothing === true ? yield* apart(caller, wanted) : { request: wanted }
        const { preset, request } = yield* check(caller, asked, came)
        yield* keepToken(caller, preset, request)
        const replaces = chat?.replaces === true
        if (replaces) yield* endUnread(caller, request.session_id)
        const clock = yield* Clock.Clock
        const createdAt = clock.currentTimeMillisUnsafe()
        const { timeout_ms } = request.preferences
        const model = request.preferences.model ?? config.model
        const webhooks = PlanWebhooks.of(caller, request, PlanWebhooks.configuredOf(preset, config.webhooks), secretKey)
        const begun = Effect.fnUntraced(function* ({ run }: RunningPlan, session: PlanSession) {
          const { dropped, fence } = session
          if (dropped.length > 0) yield* FiberSet.run(starts, cancelDropped(session, caller))
          if (request.preferences.on_busy === "interrupt" && fence === undefined) {
            // The plan and its key are stored, so nothing refuses it from here on. At worst it waits for the older plans.
            yield* supersede(running, store, caller, run.given)
          } else if (chat !== undefined && fence === undefined) {
            // At worst it waits for their grace.
            yield* Effect.ignore(outdate(notices, store, caller, run.given))
          }
          yield* tell(request.task_message?.task_id)
        })
        return yield* creations.create(
          {
            plan_id: PlanId.make(`plan_${uuid()}`),
            caller,
            request,
            preset,
            model,
            cost_usd: ModelLimits.of(config, model).facts?.price === undefined ? null : 0,
            route: Hops.onward(came, gateway, Hops.originOf(yield* Effect.context())),
            createdAt,
            deadline: createdAt + timeout_ms,
            endsAt: Monotonic.millis(clock) + timeout_ms
          },
          { ...kept, replaces, told, webhooks, sent: sent ?? StoredRequest.written(asked) },
          begun
        )
      })

      return {
        endUnread,
        check: ({ caller, request, route = direct }) => Effect.asVoid(check(caller, request, route)),
        isKnown: (id) => creations.isPending(id) || running.find(id) !== undefined,
        find: (id) => Effect.map(creations.decided(id), () => running.find(id)),
        start: (asked, use) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.flatMap(FiberSet.run(starts, start(asked)), (fiber) =>
              restore(Fiber.join(fiber)).pipe(
                Effect.onInterrupt(() => FiberSet.run(starts, disconnect(fiber))),
                Effect.flatMap(use)
              )
            )
          )
      }
    })
  )
}

const summaryModels = ({ summaryModel }: PlansConfig["Service"]) => (summaryModel === undefined ? [] : [summaryModel])

/** The models that a plan under a limit in money may ask, though nobody knows their price: the limit could not hold. */
const unpricedIssues = (
  caller: CallerName,
  request: ResolvedRequest,
  config: PlansConfig["Service"]
): InvalidRequest["issues"] => {
  const { cost_usd, month_cost_usd } = config.budgetOf(caller) ?? {}
  const isOwn = request.preferences.max_cost_usd !== undefined
  const isLimited = isOwn || cost_usd !== undefined || month_cost_usd !== undefined
  if (!isLimited || config.unknownPrice === "ignore" || request.call !== undefined) return []
  const limit = isOwn ? "preferences.max_cost_usd" : `the budget of ${caller}`
  return Array.from(new Set([...chainOf(request, config), ...summaryModels(config)]))
    .filter((model) => ModelLimits.of(config, model).facts?.price === undefined)
    .map((model) => ({
      path: ["preferences", isOwn ? "max_cost_usd" : "model"],
      message:
        `Nobody knows the price of ${model}, which ${limit} limits. ` +
        "Ask another model, or have an operator set its price in models, or plans.unknown_price to ignore"
    }))
}

/** Finds the preset of a request, and refuses what this gateway does not run. */
const makeCheck = Effect.gen(function* () {
  const config = yield* PlansConfig
  const { allowsModel } = config
  const permissions = yield* Permissions
  const presets = yield* Presets.Presets
  const running = yield* RunningPlans
  const { isAllowed: allowsVariable } = yield* EnvironmentSecrets
  const gateway = yield* GatewayId
  const localTools = (yield* LocalTools).map(({ name }) => name)
  const checkWebhooks = yield* PlanWebhooks.makeCheck
  const tokens = yield* CallerTokens
  const { refuseAt } = yield* AccountGrants

  return Effect.fnUntraced(function* (
    caller: CallerName,
    asked: PlanRequest,
    came: Route
  ): Effect.fn.Return<
    { readonly preset: Presets.Preset; readonly request: ResolvedRequest },
    NotAccepting | InvalidRequest | HopsExceeded
  > {
    if (running.isDraining()) return yield* new NotAccepting({ code: "draining" })
    const asker = asked.asker ?? (yield* AskerFacts)
    const ofCaller = permissions.forCaller(caller, asker.groups)
    const preset = Presets.find(presets, ofCaller, asked.preset)
    if (preset === undefined) {
      const names = Presets.allowed(presets, ofCaller).map(({ name }) => name)
      return yield* new InvalidRequest({ issues: [Admission.unknownPreset(asked.preset, names)] })
    }
    const permission = narrow(ofCaller, preset.permission)
    const issues = Admission.check(asked, preset, {
      allowsModel: (model) => allowsModel(model) && permission.model(model),
      allowsHost: (url) => permission.host(hostOf(url)),
      allowsVariable,
      localTools,
      notAsCaller: (name) => {
        if (!tokens.areKept) {
          return `Expected none that acts as the caller, such as ${name}: BOWLINE_SECRET_KEY (plans.secret_key in the file) is not set`
        }
        return hasTokens(caller)
          ? undefined
          : `Expected a caller with a token of an identity provider, since ${name} is called as the caller: ${caller} has none`
      },
      notAtAccount: refuseAt
    }).concat(yield* checkWebhooks(asked))
    if (issues.length > 0) return yield* new InvalidRequest({ issues })
    const resolved = resolve(asked, preset.preferences)
    const unpriced = unpricedIssues(caller, resolved, config)
    if (unpriced.length > 0) return yield* new InvalidRequest({ issues: unpriced })
    const request = { ...resolved, ...(Object.keys(asker).length > 0 && { asker }) }
    const tooFar = Hops.refusal(came, gateway, request.preferences.max_hops)
    if (tooFar !== undefined) return yield* tooFar
    const asks = request.call === undefined
    const unsupported = asks ? SentFiles.refuse(config, chainOf(request, config), request.question_parts) : undefined
    return unsupported === undefined ? { preset, request } : yield* unsupported
  })
})
