import { Deferred, Effect, Result } from "effect"
import type { Act } from "../Act.ts"
import type { SendParams } from "./SendParams.ts"
import type { RpcError } from "./StrictRequest.ts"
import { asked, become, isOver, plot, type Moment, type Scene } from "./Scene.ts"

/** The ids of a task. */
export interface PeerTask {
  readonly id: string
  readonly contextId: string
}

/** A task, and what will happen to it from an instant on. A follower looks again when the entry is `overtaken`. */
export interface Entry {
  readonly task: PeerTask
  readonly since: number
  readonly beginning: Scene
  readonly moments: ReadonlyArray<Moment>
  readonly overtaken: Deferred.Deferred<void>
}

export const sceneAt = ({ beginning, moments, since }: Entry, now: number): Scene =>
  moments.findLast(({ at }) => since + at <= now)?.told.scene ?? beginning

/** The tasks of a peer. Instants are in milliseconds. */
export class TaskBook {
  readonly #entries = new Map<string, Entry>()
  readonly #obeysCancel: boolean

  constructor(obeysCancel: boolean) {
    this.#obeysCancel = obeysCancel
  }

  /** Starts a task, or continues the one with its id. */
  begin(task: PeerTask, { messageId, parts }: SendParams["message"], acts: ReadonlyArray<Act>, now: number): Entry {
    const before = this.#entries.get(task.id)
    const beginning = asked({ by: "user", messageId, parts }, before && sceneAt(before, now))
    return this.#write(task, beginning, plot(beginning, acts), now)
  }

  find(taskId: string): Result.Result<Entry, RpcError> {
    const entry = this.#entries.get(taskId)
    return entry === undefined ? Result.fail({ code: -32001, message: "Task not found" }) : Result.succeed(entry)
  }

  cancel(taskId: string, now: number): Result.Result<Entry, RpcError> {
    return Result.flatMap(this.find(taskId), (entry): Result.Result<Entry, RpcError> => {
      const scene = sceneAt(entry, now)
      if (isOver(scene)) return Result.fail({ code: -32002, message: "Task cannot be canceled" })
      return Result.succeed(this.#obeysCancel ? this.#write(entry.task, become(scene, "canceled"), [], now) : entry)
    })
  }

  #write(task: PeerTask, beginning: Scene, moments: ReadonlyArray<Moment>, since: number): Entry {
    const before = this.#entries.get(task.id)
    const entry = { task, since, beginning, moments, overtaken: Deferred.makeUnsafe<void>() }
    this.#entries.set(task.id, entry)
    if (before !== undefined) Deferred.doneUnsafe(before.overtaken, Effect.void)
    return entry
  }
}
