import type { Metadata } from "@bowline/a2a/unstable/server/ServedTask"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { LeaseLost } from "@bowline/runtime/unstable/store/LeaseStore"
import type { ClaimedTarget, PushCursor, PushProgress, PushStore } from "@bowline/runtime/unstable/store/PushStore"
import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Clock, Effect, Option, Schedule } from "effect"
import type { HttpClient } from "effect/http"
import { type Gone, logDropped, post } from "./Post.ts"

const notifications = counter({
  name: "bowline.push.notifications",
  description:
    "Notifications to clients of A2A: those that arrived, attempts that failed, those that were dropped, and places that said that they are gone",
  labels: { result: ["delivered", "failed", "dropped", "gone"] }
})

/** How long the same notification is tried. */
const patienceMs = 3_600_000

const delays = Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced("5 minutes")])

/** What a receiver authenticates the gateway by. */
export interface PushSecrets {
  readonly token?: string
  readonly credentials?: string
}

const headersOf = ({ scheme, wire }: ClaimedTarget["target"], { credentials, token }: PushSecrets) => ({
  "content-type": wire === "1.0" ? "application/a2a+json" : "application/json",
  ...(wire === "1.0" && { "a2a-version": "1.0" }),
  ...(credentials !== undefined && { authorization: `${scheme ?? "Bearer"} ${credentials}` }),
  ...(token !== undefined && { "x-a2a-notification-token": token })
})

/**
 * The notifications of one target, in order. Before each attempt it checks that the target is still this replica's, and it stores how far
 * the target is behind each one.
 */
export class TaskDelivery {
  readonly #client: HttpClient.HttpClient
  readonly #store: PushStore["Service"]
  readonly #claimed: ClaimedTarget
  readonly #headers: Readonly<Record<string, string>>
  #progress: PushProgress

  constructor(
    client: HttpClient.HttpClient,
    store: PushStore["Service"],
    claimed: ClaimedTarget,
    secrets: PushSecrets
  ) {
    this.#client = client
    this.#store = store
    this.#claimed = claimed
    this.#headers = headersOf(claimed.target, secrets)
    this.#progress = claimed
  }

  get cursor(): PushCursor {
    return this.#progress.cursor
  }

  /** The target has been told everything up to this place. */
  readonly reach = (cursor: PushCursor): Effect.Effect<void, LeaseLost | StorageError> => {
    this.#progress = { cursor, failing_since: null }
    return this.#write
  }

  /** Returns when the receiver has taken the notification, or when it is dropped after an hour. */
  readonly send = (body: Metadata): Effect.Effect<void, Gone | LeaseLost | StorageError> =>
    Effect.gen({ self: this }, function* () {
      const attempt = Effect.andThen(
        this.#write,
        post(this.#client, this.#claimed.target.url, JSON.stringify(body), this.#headers)
      )
      yield* attempt.pipe(
        Effect.tapErrorTag("NotTaken", () => this.#fail),
        Effect.retry({
          schedule: delays,
          while: ({ _tag }) => Effect.map(this.#isPatient, (isPatient) => _tag === "NotTaken" && isPatient)
        }),
        Effect.andThen(notifications.update(1, { result: "delivered" })),
        Effect.catchTag("NotTaken", ({ reason }) => this.#drop(reason)),
        Effect.tapErrorTag("Gone", () =>
          Effect.andThen(notifications.update(1, { result: "gone" }), this.#store.drop(this.#claimed))
        )
      )
      this.#progress = { ...this.#progress, failing_since: null }
    })

  /** The task is over: nothing comes any more. */
  get finish(): Effect.Effect<void, StorageError> {
    return Effect.asVoid(this.#store.progress(this.#claimed, Option.none()))
  }

  get #write(): Effect.Effect<void, LeaseLost | StorageError> {
    return Effect.suspend(() => this.#store.progress(this.#claimed, Option.some(this.#progress))).pipe(
      Effect.flatMap((isHeld): Effect.Effect<void, LeaseLost> => (isHeld ? Effect.void : Effect.fail(new LeaseLost())))
    )
  }

  /** The first failure begins the hour, also for the replica that goes on. */
  get #fail(): Effect.Effect<void> {
    return Effect.gen({ self: this }, function* () {
      yield* notifications.update(1, { result: "failed" })
      if (this.#progress.failing_since !== null) return
      this.#progress = { ...this.#progress, failing_since: yield* Clock.currentTimeMillis }
    })
  }

  get #isPatient(): Effect.Effect<boolean> {
    return Effect.map(Clock.currentTimeMillis, (now) => now - (this.#progress.failing_since ?? now) < patienceMs)
  }

  #drop(reason: string): Effect.Effect<void> {
    return Effect.andThen(notifications.update(1, { result: "dropped" }), logDropped(this.#claimed, reason))
  }
}
