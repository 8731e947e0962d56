import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { formatPath } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import type { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { Effect } from "effect"
import { invalid } from "./Refusals.ts"

type Start = (request: PlanRequest) => ReturnType<PlanStreams["Service"]["start"]>

/** Whether all that is wrong is that the session has a history already. */
const isAboutHistory = ({ issues }: InvalidRequest): boolean => issues.every(({ path }) => path[0] === "history")

/** Says what is wrong with a plan by the fields of the client's body. */
export const refuse =
  (renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>) =>
  ({ issues }: InvalidRequest) =>
    Effect.fail(invalid(renamed(issues.map(({ message, path }) => ({ path: formatPath(path), message })))))

/**
 * Starts a plan for a client that tells the whole conversation with each question. A session that has a history keeps its own: the
 * client's is another telling of it. `renamed` names what is wrong by the fields of the client's body.
 */
export const start = (
  request: PlanRequest,
  begin: Start,
  renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>
) =>
  begin(request).pipe(
    Effect.catchTag("InvalidRequest", (refusal) =>
      isAboutHistory(refusal) ? begin({ ...request, history: [] }) : Effect.fail(refusal)
    ),
    Effect.catchTag("InvalidRequest", refuse(renamed))
  )
