import { summary } from "@bowline/domain/peer/Agent"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { MessageId } from "@bowline/domain/session/Message"
import { SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { Duration } from "effect"
import { type Idempotency, keptFor } from "../store/Idempotency.ts"
import type { NewPlan } from "../store/PlanStore.ts"
import type { SecretKey } from "../store/SecretKey.ts"
import * as StoredRequest from "../store/StoredRequest.ts"

interface Circumstances extends Pick<NewPlan, "owner" | "model" | "route" | "replica"> {
  readonly secretKey: typeof SecretKey.Service
  /** Whether another process may go on with it. */
  readonly isKept: boolean
  readonly idempotency: Idempotency | undefined
  readonly createdAt: number
  readonly deadline: number
  readonly uuid: () => string
}

/** What is stored of a request that was admitted. Times in milliseconds. */
export const newPlan = (
  request: PlanRequest,
  { idempotency, createdAt, deadline, isKept, secretKey, uuid, ...given }: Circumstances
): NewPlan => {
  const plan_id = PlanId.make(`plan_${uuid()}`)
  return {
    ...given,
    plan_id,
    request: isKept ? StoredRequest.store(request, plan_id, secretKey) : null,
    new_session_id: SessionId.make(`session_${uuid()}`),
    external_session_id: request.session_id ?? null,
    agents: request.agents.map(summary),
    history: request.history.map(({ role, content }) => ({
      message_id: MessageId.make(`msg_${uuid()}`),
      role,
      parts: [{ type: "text", text: content }]
    })),
    prior_summary: request.prior_summary ?? "",
    question: request.question,
    preferences: request.preferences,
    metadata: request.metadata,
    created_at: fromMillis(createdAt),
    deadline_at: fromMillis(deadline),
    idempotency:
      idempotency === undefined
        ? null
        : { ...idempotency, expires_at: fromMillis(createdAt + Duration.toMillis(keptFor)) }
  }
}
