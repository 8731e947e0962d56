import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { AskRequest, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { formatPath } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import * as QuestionFiles from "@bowline/runtime/unstable/file/QuestionFiles"
import type { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import { invalid } from "../../http/Refusals.ts"

type Start = (request: PlanRequest) => ReturnType<PlanStreams["Service"]["start"]>

/** Whether all that is wrong is that the session has a history already. */
const isAboutHistory = ({ issues }: InvalidRequest): boolean => issues.every(({ path }) => path[0] === "history")

/** Says what is wrong with a plan by the fields of the client's body. */
export const refuse =
  (renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>) =>
  ({ code, issues }: InvalidRequest) =>
    Effect.fail(invalid(renamed(issues.map(({ message, path }) => ({ path: formatPath(path), message }))), code))

/**
 * Starts plans for clients that tell the whole conversation with each question. A session that has a history keeps its own: the
 * client's is another telling of it, and files in that are not taken in again. `renamed` names what is wrong by the fields of the client's body.
 */
export const make = Effect.gen(function* () {
  const { takeRequest } = yield* QuestionFiles.make
  const sessions = yield* SessionStore

  /** The request without a history whose files nobody would look at. */
  const withoutKnown = Effect.fnUntraced(
    function* (caller: CallerName, request: AskRequest) {
      const { history, session_id } = request
      if (session_id === undefined || !history.some(({ parts }) => parts !== undefined)) return request
      yield* sessions.find(caller, session_id)
      return { ...request, history: [] }
    },
    (known, _caller, request) => Effect.catchTag(known, "NotFound", () => Effect.succeed(request))
  )

  return (
    caller: CallerName,
    asked: AskRequest,
    begin: Start,
    renamed: (issues: ReadonlyArray<Issue>) => ReadonlyArray<Issue>
  ) =>
    Effect.gen(function* () {
      const request = yield* takeRequest(caller, yield* withoutKnown(caller, asked))
      return yield* begin(request).pipe(
        Effect.catchTag("InvalidRequest", (refusal) =>
          isAboutHistory(refusal) ? begin({ ...request, history: [] }) : Effect.fail(refusal)
        )
      )
    }).pipe(Effect.catchTag("InvalidRequest", refuse(renamed)))
})
