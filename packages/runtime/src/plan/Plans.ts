import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanState } from "@bowline/domain/plan/Plan"
import type { PlanId } from "@bowline/domain/plan/PlanId"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { InvalidRequest, NotAccepting, NotFound, SessionBusy } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/SessionId"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Effect, type Scope } from "effect"
import type { Page, PageRequest } from "../session/Page.ts"
import type { PlanReader } from "../stream/PlanReader.ts"

/** Runs plans, and lets callers read and end them. */
export class Plans extends Context.Service<
  Plans,
  {
    /**
     * Checks the request, stores the plan and starts it in a fiber that `Plans` owns. The caller is its first reader until the
     * scope closes: with `on_disconnect: "cancel"` the plan is aborted when its last reader has gone.
     */
    readonly start: (
      caller: CallerName,
      request: PlanRequest
    ) => Effect.Effect<
      { readonly plan_id: PlanId; readonly session_id: SessionId; readonly frames: PlanReader },
      InvalidRequest | SessionBusy | NotAccepting | StorageError,
      Scope.Scope
    >
    readonly get: (caller: CallerName, id: PlanId) => Effect.Effect<Plan, NotFound | StorageError>
    /** Newest first. `session` is the gateway's id, or the caller's name of it. */
    readonly list: (
      caller: CallerName,
      filter: { readonly session?: string; readonly state?: PlanState },
      page: PageRequest
    ) => Effect.Effect<Page<Plan>, NotFound | StorageError>
    /**
     * The plan's frames behind `after` (0: from the start), live to the end. A cursor past the head is invalid; at the end of a
     * plan that is over there is nothing to read. A reader for as long as the scope is open.
     */
    readonly events: (
      caller: CallerName,
      id: PlanId,
      after: number
    ) => Effect.Effect<
      { readonly session_id: SessionId; readonly frames: PlanReader },
      NotFound | InvalidRequest | StorageError,
      Scope.Scope
    >
    /** Aborts the plan (`cancelled`) and gives it as it is once settled. A plan that is over stays as it is. */
    readonly cancel: (caller: CallerName, id: PlanId) => Effect.Effect<Plan, NotFound | StorageError>
    /** From now on `start` refuses with `draining`. Returns when no plan runs any more: those that still do when the grace is over are aborted (`shutdown`). */
    readonly drain: Effect.Effect<void>
    readonly isDraining: Effect.Effect<boolean>
  }
>()("@bowline/runtime/plan/Plans") {}
