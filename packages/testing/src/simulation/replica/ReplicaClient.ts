import { anonymous } from "@bowline/domain/caller/CallerName"
import type { Decision, PendingApproval } from "@bowline/domain/plan/Approval"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { AnswerEntry, ResultEntry, TextEntry } from "@bowline/domain/plan/Inbox"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import type { ReaderItem } from "@bowline/runtime/unstable/stream/LivePlan"
import { type Ended, isEnded, PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Cause, Context, Data, Effect, Layer, Schema, type Scope, Stream } from "effect"
import { across, type Process } from "../process/Process.ts"
import type { World } from "../world/World.ts"

/** The connection is gone, and with it the answer: the replica was killed, or the network has broken. */
export class Broken extends Data.TaggedError("Broken") {}

/** The replica refuses the request. `isPassing`: the same request may have another answer a little later. `plan` may still run, if one is named. */
export class Refused extends Data.TaggedError("Refused")<{
  readonly code: string
  readonly isPassing: boolean
  readonly plan?: PlanId | undefined
}> {}

/** What a caller does with the answer to a question. Both run in the world. */
export interface Audience {
  /** The answer has begun, and names the plan. */
  readonly begin: (plan: PlanId) => Effect.Effect<void>
  /** As long as it lasts, the caller reads nothing more. */
  readonly take: (items: ReadonlyArray<ReaderItem>) => Effect.Effect<void>
}

/** A question as a caller posts it. */
export interface Question {
  readonly body: Schema.Json
  /** The idempotency key. */
  readonly key: string | undefined
}

type Answered<A = void> = Effect.Effect<A, Refused | Broken>

/** One more thing that a caller says to its plan. */
export type Text = Pick<TextEntry, "text" | "when" | "else">

/** A call that waits for a decision, as whoever decides is shown it. */
export type Asked = Pick<PendingApproval, "input" | "tool" | "why">

/** What a call of a plan waits for: a result of the caller, or its answer. */
export interface Waiting {
  readonly task_id: TaskId
  readonly type: "result" | "answer"
  readonly tool: string | null
  readonly input: Schema.Json
}

/** What a caller gives a call that waits for it. */
export interface Gift extends Pick<Waiting, "task_id" | "type"> {
  readonly content: string
  /** The caller's tool says that it has failed. */
  readonly isError: boolean
}

/** The entry of a gift. */
export const entryOf = ({ content, isError, task_id, type }: Gift): ResultEntry | AnswerEntry =>
  type === "result" ? { type, task_id, content, ...(isError && { is_error: true }) } : { type, task_id, text: content }

/**
 * How callers reach one replica. Its effects run in the world. `start` and `read` end when the gateway ends the stream; who interrupts
 * them closes the connection.
 */
export class ReplicaClient extends Context.Service<
  ReplicaClient,
  {
    readonly start: (question: Question, audience: Audience) => Answered
    readonly read: (plan: PlanId, after: number, audience: Audience) => Answered
    readonly cancel: (plan: PlanId) => Answered
    /** Decides about every call of the plan that waits. */
    readonly decide: (plan: PlanId, decide: (asked: Asked) => Decision["decision"]) => Answered
    /** The calls of the plan that wait for a result or an answer of the caller. */
    readonly waiting: (plan: PlanId) => Answered<ReadonlyArray<Waiting>>
    readonly give: (plan: PlanId, gift: Gift, key: string) => Answered
    /** Gives the plan that has the text. */
    readonly say: (plan: PlanId, text: Text, key: string) => Answered<PlanId>
    /** Stores a file of ASCII text, and gives its id. */
    readonly upload: (content: Stream.Stream<Uint8Array, Broken>) => Answered<FileId>
  }
>()("@bowline/testing/simulation/replica/ReplicaClient") {}

/** The process that a client reaches, and the world that it comes from. */
export interface Site {
  readonly process: Process
  readonly world: World
  /** What resets the connections of callers that are open, one by one. */
  readonly connections: Set<() => void>
}

const decode = Schema.decodeUnknownSync(PlanRequest)

type Opened = Effect.Success<ReturnType<PlanStreams["Service"]["read"]>>

/** A plan as it is shown to a caller. */
interface Shown extends Pick<Opened, "connect"> {
  readonly frames: Stream.Stream<ReaderItem | Ended, StorageError>
}

const refusedBy = ({ _tag: code }: { readonly _tag: string }): Refused | Broken =>
  code === "Broken"
    ? new Broken()
    : new Refused({ code, isPassing: code === "StorageError" || code === "NotAccepting" })

/** How many connections of 100 follow their plan, as those of other protocols do: they go on where a reader of frames is cut off. */
const followed = 30

/** Callers call the services themselves. */
export const layerServices = ({ process, world }: Site) =>
  Layer.effect(
    ReplicaClient,
    Effect.gen(function* () {
      const plans = yield* Plans
      const streams = yield* PlanStreams
      const inbox = yield* Inbox
      const follower = yield* PlanFollower
      const files = yield* Files
      const ways = world.random.of(`ways of ${process.name}`)
      const outside = <A>(effect: Effect.Effect<A>) => across(process, world.process, effect)
      const inside = <A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>): Answered<A> =>
        across(
          world.process,
          process,
          Effect.mapError(effect, refusedBy),
          Effect.suspend(() => Effect.fail(new Broken()))
        ).pipe(
          // A replica that shuts down interrupts what it has not answered: its callers see that the connection is gone.
          Effect.catchCauseIf(Cause.hasInterrupts, () => Effect.fail(new Broken()))
        )

      const connect = <E extends { readonly _tag: string }>(
        open: Effect.Effect<Opened, E, Scope.Scope>,
        after: number,
        { begin, take }: Audience
      ) => {
        const isFollowed = ways.chance(followed)
        return Effect.gen(function* () {
          const opened = yield* open
          yield* outside(begin(opened.plan_id))
          const opening: Shown = isFollowed ? follower.follow(anonymous, opened, after) : opened
          let disconnect = () => {}
          const closed = Effect.callback<void>((resume) => {
            disconnect = opening.connect(() => resume(Effect.void))
          })
          const reading = Stream.runForEachArray(opening.frames, (items) =>
            outside(take(items.flatMap((item) => (isEnded(item) ? [] : [item]))))
          )
          yield* Effect.ensuring(
            Effect.raceFirst(reading, closed),
            Effect.sync(() => disconnect())
          )
        }).pipe(Effect.scoped, inside)
      }

      return {
        start: ({ body, key }, audience) => {
          const request = decode(body)
          const asked = { caller: anonymous, request, ...(key && { idempotency: idempotency(key, request) }) }
          return connect(streams.start(asked), 0, audience)
        },
        read: (plan, after, audience) => connect(streams.read(anonymous, plan, after), after, audience),
        cancel: (plan) => inside(Effect.asVoid(plans.cancel(anonymous, plan))),
        waiting: (plan) =>
          inside(
            Effect.map(inbox.waiting(anonymous, { plan }, { limit: 100 }), ({ items }) =>
              items.flatMap(({ input, kind, task_id, tool }) =>
                kind === "result" || kind === "answer" ? [{ task_id, type: kind, tool, input }] : []
              )
            )
          ),
        give: (plan, gift, key) =>
          inside(Effect.asVoid(inbox.accept({ caller: anonymous, isAdmin: false }, plan, entryOf(gift), key))),
        say: (plan, text, key) =>
          inside(
            Effect.map(
              inbox.accept({ caller: anonymous, isAdmin: false }, plan, { type: "text", ...text }, key),
              ({ plan_id }) => plan_id
            )
          ),
        upload: (content) =>
          inside(
            Effect.map(
              files.upload({ caller: anonymous, content, said: () => ({ name: undefined, type: "text/plain" }) }),
              ({ file }) => file.file_id
            )
          ),
        decide: (plan, decide) =>
          Effect.gen(function* () {
            const { items } = yield* plans.approvals(anonymous, { limit: 100 })
            const decider = { caller: anonymous, isAdmin: false }
            for (const approval of items) {
              if (approval.plan_id !== plan) continue
              const decision = decide(approval)
              yield* plans.decide(decider, approval, { decision })
            }
          }).pipe(inside)
      }
    })
  )
