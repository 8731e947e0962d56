import type { EntryState } from "@bowline/domain/plan/Inbox"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Deferred, Effect, Latch } from "effect"
import type { InboxContent, Settlement, StoredText, StoredWait } from "../store/InboxStore.ts"
import type { PlanChange } from "../store/PlanStore.ts"
import type { Journal } from "../stream/Journal.ts"

/** What a plan does with an entry of its inbox. */
export const entryChanged = (
  entry_id: EntryId,
  state: EntryState,
  rest: { readonly step?: number; readonly moved_to?: PlanId } = {}
): PlanChange => ({ _tag: "EntryChanged", entry_id, state, step: rest.step ?? null, moved_to: rest.moved_to ?? null })

/** What a call waits for, and until when (ISO 8601 in UTC). `isHeld`: whoever asks waits at a connection of this process. */
export type Wait = Pick<StoredWait, "task_id" | "kind" | "round" | "expires_at"> & { readonly isHeld?: boolean }

const byText = (task_id: TaskId): Settlement => ({
  task_id,
  round: 1,
  given: undefined,
  tool_digest: null,
  isByText: true
})

/** How long a plan waits that is told of news and finds none. */
const pause = "100 millis"

/** What a plan leaves behind as it ends: texts that a next plan may ask, and the other entries that it has not used. */
export interface LeftEntries {
  readonly asking: ReadonlyArray<StoredText>
  readonly untaken: ReadonlyArray<EntryId>
}

/**
 * What was said to a plan that runs here, as far as this process has read it.
 *
 *     accepted ──read──▶ here, and its readers are told ──a step boundary, or its wait──▶ taken
 *
 * Each thing that it does with an entry is in one commit with what comes of it: a text is taken with its message.
 */
export class PlanInbox {
  readonly #journal: Journal
  readonly #read: (inbox: PlanInbox) => Effect.Effect<void, StorageError>
  readonly #onWait: () => void
  #seen: number
  #texts: ReadonlyArray<StoredText> = []
  #tools: ReadonlyArray<ClientTool> | undefined
  readonly #settlements = new Map<TaskId, Settlement>()
  readonly #waiting = new Map<TaskId, { readonly wait: Wait; readonly settled: Deferred.Deferred<Settlement> }>()
  /** Entries that the store may still show as accepted although the plan has used them. */
  readonly #used = new Set<EntryId>()
  /** Answers to questions that are asked no more. */
  readonly #outdated: Array<EntryId> = []
  readonly #urgent = Latch.makeUnsafe(false)
  readonly plan_id: PlanId
  /** Called whenever a call begins to wait. */
  onChange: () => void = () => undefined

  constructor(
    plan_id: PlanId,
    journal: Journal,
    seen: number,
    parts: { readonly read: (inbox: PlanInbox) => Effect.Effect<void, StorageError>; readonly onWait: () => void }
  ) {
    this.plan_id = plan_id
    this.#journal = journal
    this.#seen = seen
    this.#read = parts.read
    this.#onWait = parts.onWait
  }

  /** How much of the inbox is read. */
  get seen(): number {
    return this.#seen
  }

  get isWaiting(): boolean {
    return this.#waiting.size > 0
  }

  /** What the calls of the plan wait for, and nothing has settled. */
  get waits(): ReadonlyArray<Wait> {
    return Array.from(this.#waiting.values(), ({ wait }) => wait)
  }

  /** The tools that the client has from the next step on, if they are others than those of the request. */
  get tools(): ReadonlyArray<ClientTool> | undefined {
    return this.#tools
  }

  /** The texts that the plan has not taken, in order. */
  get texts(): ReadonlyArray<StoredText> {
    return this.#texts
  }

  /** Reads what is new. A replica of the database that is behind may have nothing yet: then it takes a little longer. */
  get refresh(): Effect.Effect<void, StorageError> {
    return Effect.suspend(() => {
      const before = this.#seen
      return Effect.andThen(
        this.#read(this),
        Effect.suspend(() => (this.#seen === before ? Effect.sleep(pause) : Effect.void))
      )
    })
  }

  /** Returns when there is a text that is to be taken now. */
  get urgent(): Effect.Effect<void> {
    return this.#urgent.await
  }

  /** Takes in what was read of the store, and tells the plan's readers what they have not seen of it. */
  receive({ count, settlements, texts, tools }: InboxContent): void {
    // What comes while the plan's end is proposed is read again if that is dropped.
    if (count < this.#seen || !this.#journal.isHeard) return
    this.#seen = count
    this.#journal.read(count)
    this.#tools = tools
    const changes: Array<PlanChange> = []
    const events: Array<PlanEvent> = []
    const known = new Set(this.#texts.map(({ entry_id }) => entry_id))
    const open = texts.filter(({ entry_id }) => !this.#used.has(entry_id))
    for (const { by, entry_id, isTold, isWithdrawn, text } of open) {
      if (isTold || (!isWithdrawn && known.has(entry_id))) continue
      changes.push(entryChanged(entry_id, isWithdrawn ? "withdrawn" : "accepted"))
      events.push(
        isWithdrawn
          ? { event: "inbox.moved", data: { entry_id, moved_to: null } }
          : { event: "inbox.accepted", data: { entry_id, by, text } }
      )
      if (isWithdrawn) this.#used.add(entry_id)
    }
    this.#texts = open.filter(({ isWithdrawn }) => !isWithdrawn)
    this.#journal.tell(changes, events)
    for (const settlement of settlements) {
      const { given, task_id } = settlement
      if (given?.entry_id != null && this.#used.has(given.entry_id)) continue
      this.#settlements.set(task_id, settlement)
      const waiting = this.#waiting.get(task_id)
      // It waits no longer, though its fiber has not gone on yet.
      this.#waiting.delete(task_id)
      if (waiting !== undefined) Deferred.doneUnsafe(waiting.settled, Effect.succeed(settlement))
    }
    this.#hurry()
    if (this.#texts.length > 0) this.#endTimers()
  }

  /** A text ends each wait for a time. */
  #endTimers(): void {
    for (const [task_id, { settled, wait }] of Array.from(this.#waiting)) {
      if (wait.kind !== "timer") continue
      this.#waiting.delete(task_id)
      Deferred.doneUnsafe(settled, Effect.succeed(byText(task_id)))
    }
  }

  #hurry(): void {
    if (this.#texts.some(({ when }) => when === "now")) this.#urgent.openUnsafe()
    else this.#urgent.closeUnsafe()
  }

  /** What has settled the call, and is not used. */
  settlementOf(task_id: TaskId): Settlement | undefined {
    return this.#settlements.get(task_id)
  }

  /** Waits for what settles this question of the call. */
  wait(wait: Wait): Effect.Effect<Settlement> {
    const { round, task_id } = wait
    return Effect.suspend(() => {
      const known = this.#settlements.get(task_id)
      if (wait.kind === "timer" && this.#texts.length > 0) return Effect.succeed(byText(task_id))
      if (known?.round === round) return Effect.succeed(known)
      if (known !== undefined) this.#outdate(known)
      return Effect.acquireUseRelease(
        Effect.sync(() => {
          const settled = Deferred.makeUnsafe<Settlement>()
          this.#waiting.set(task_id, { wait, settled })
          this.#onWait()
          this.onChange()
          return settled
        }),
        Deferred.await,
        () => Effect.sync(() => this.#waiting.delete(task_id))
      )
    })
  }

  /** The call asks something else by now: nobody uses the answer. */
  #outdate({ given, task_id }: Settlement): void {
    this.#settlements.delete(task_id)
    if (given?.entry_id == null) return
    this.#used.add(given.entry_id)
    this.#outdated.push(given.entry_id)
  }

  /** The change that says that the call has used what has settled it. The caller appends it with what it has come to. */
  use({ given, isByText, task_id }: Settlement): ReadonlyArray<PlanChange> {
    this.#settlements.delete(task_id)
    if (isByText === true) return [{ _tag: "WaitEnded", task_id }]
    if (given?.entry_id == null) return []
    this.#used.add(given.entry_id)
    return [entryChanged(given.entry_id, "taken")]
  }

  /**
   * Takes all texts that are there, for this step: `messages` are what the history gets of them. Gives what was taken; nothing if the plan's
   * end comes first.
   */
  take(
    step: number,
    messages: (texts: ReadonlyArray<StoredText>) => ReadonlyArray<PlanChange>
  ): Effect.Effect<ReadonlyArray<StoredText>, StorageError> {
    return Effect.gen({ self: this }, function* () {
      while (this.#texts.length > 0) {
        const texts = this.#texts
        const changes = texts.map(({ entry_id }) => entryChanged(entry_id, "taken", { step }))
        const events = texts.map(({ entry_id }): PlanEvent => ({ event: "inbox.taken", data: { entry_id, step } }))
        this.#leave(texts.map(({ entry_id }) => entry_id))
        const dropped = () => this.#restore(texts)
        const { seen } = this
        if (yield* this.#journal.proposed([...changes, ...messages(texts)], events, dropped)) return texts
        // Unless it was read meanwhile.
        if (this.seen === seen) yield* this.refresh
      }
      return []
    })
  }

  /** The entries are the plan's no more. */
  #leave(entries: ReadonlyArray<EntryId>): void {
    for (const id of entries) this.#used.add(id)
    this.#texts = this.#texts.filter(({ entry_id }) => !this.#used.has(entry_id))
    this.#hurry()
  }

  #restore(texts: ReadonlyArray<StoredText>): void {
    for (const { entry_id } of texts) this.#used.delete(entry_id)
    this.#texts = [...texts, ...this.#texts]
  }

  /** What the plan leaves behind if it ends now. */
  left(isCompleted: boolean): LeftEntries {
    const asking = isCompleted ? this.#texts.filter((text) => text.else === "ask") : []
    const unused = Array.from(this.#settlements.values(), ({ given }) => given?.entry_id).filter((id) => id != null)
    const others = this.#texts.filter((text) => !asking.includes(text)).map(({ entry_id }) => entry_id)
    return { asking, untaken: [...others, ...unused, ...this.#outdated] }
  }
}
