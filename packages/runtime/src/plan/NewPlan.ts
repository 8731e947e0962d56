import { MessageId } from "@bowline/domain/session/Message"
import { SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { Duration } from "effect"
import { type Idempotency, keptFor } from "../store/Idempotency.ts"
import type { PlanStart } from "../store/PlanStart.ts"
import type { NewPlan } from "../store/PlanStore.ts"
import type { SecretKey } from "../store/SecretKey.ts"
import * as StoredRequest from "../store/StoredRequest.ts"

interface Circumstances extends Pick<NewPlan, "replica"> {
  readonly secretKey: typeof SecretKey.Service
  /** Whether another process may resume the plan. */
  readonly isKept: boolean
  readonly idempotency: Idempotency | undefined
  readonly uuid: () => string
}

/** What the store gets of a plan that was admitted. */
export const newPlan = (
  start: PlanStart,
  { idempotency, isKept, secretKey, uuid, replica }: Circumstances
): NewPlan => {
  const { plan_id, request, createdAt } = start
  return {
    ...start,
    replica,
    new_session_id: SessionId.make(`session_${uuid()}`),
    messages: request.history.map(({ role, content }) => ({
      message_id: MessageId.make(`msg_${uuid()}`),
      role,
      parts: [{ type: "text", text: content }]
    })),
    storedRequest: isKept ? StoredRequest.store(request, plan_id, secretKey) : null,
    idempotency:
      idempotency === undefined
        ? null
        : { ...idempotency, expires_at: fromMillis(createdAt + Duration.toMillis(keptFor)) }
  }
}
