import { Clock, Deferred, Effect, Option, Stream } from "effect"
import { isFinal, type Moment, type Scene, type Told } from "./Scene.ts"
import type { Entry } from "./TaskBook.ts"

interface Position {
  readonly entry: Entry
  /** Milliseconds since the beginning of the entry: everything up to here is told. */
  readonly after: number
}

/** Waits for the next moments of the task, or for a change by another request. */
const next = Effect.fnUntraced(function* ({ after, entry }: Position, look: () => Entry) {
  const moment = entry.moments.find(({ at }) => at > after)
  const now = yield* Clock.currentTimeMillis
  const comes =
    moment === undefined || moment.at === Number.POSITIVE_INFINITY
      ? Effect.never
      : Effect.as(Effect.sleep(entry.since + moment.at - now), moment)
  const come = yield* Effect.raceFirst(Effect.as(Deferred.await(entry.overtaken), undefined), comes)
  if (come !== undefined) return { entry, moments: entry.moments.filter(({ at }) => at === come.at) }
  const changed = look()
  const first: Moment = { at: 0, told: { _tag: "Status", scene: changed.beginning } }
  return { entry: changed, moments: [first, ...changed.moments.filter(({ at }) => at === 0)] }
})

const upToFinal = (moments: ReadonlyArray<Moment>): ReadonlyArray<Moment> => {
  const last = moments.findIndex(({ told }) => isFinal(told.scene))
  return last === -1 ? moments : moments.slice(0, last + 1)
}

/**
 * Follows a task: first the task at a position, then each change when it happens. It ends with the task, or with the state that
 * hands it back. `look` gives the current entry of the task.
 */
export const followTask = (scene: Scene, position: Position, look: () => Entry): Stream.Stream<Told> => {
  const first = Stream.make<[Told]>({ _tag: "Task", scene })
  if (isFinal(scene)) return first
  const changes = Stream.paginate(position, (position) =>
    Effect.map(next(position, look), ({ entry, moments }) => {
      const shown = upToFinal(moments)
      const last = shown.at(-1)
      const isOpen = last !== undefined && !isFinal(last.told.scene)
      return [shown.map(({ told }) => told), isOpen ? Option.some({ entry, after: last.at }) : Option.none()] as const
    })
  )
  return Stream.concat(first, changes)
}
