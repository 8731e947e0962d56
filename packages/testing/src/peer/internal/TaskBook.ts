import type { Dialect } from "@bowline/domain/peer/Agent"
import { Result } from "effect"
import type { Act } from "../Act.ts"
import { become, play, type Scene } from "./Script.ts"
import type { RpcError } from "./StrictRequest.ts"
import { messageAnswer, taskAnswer, type PeerTask } from "./WireAnswer.ts"

interface Entry {
  readonly task: PeerTask
  readonly sceneAt: (now: number) => Scene
}

type Reply = Result.Result<object, RpcError>

const lastStates = new Set(["completed", "failed", "canceled", "rejected"])

/** The tasks of a peer, and what it answers of them. Instants are in milliseconds. */
export class TaskBook {
  readonly #entries = new Map<string, Entry>()
  readonly #dialect: Dialect
  readonly #obeysCancel: boolean

  constructor(dialect: Dialect, obeysCancel: boolean) {
    this.#dialect = dialect
    this.#obeysCancel = obeysCancel
  }

  start(task: PeerTask, acts: ReadonlyArray<Act>, now: number): object {
    const [first] = acts
    if (first?._tag === "Reply") return messageAnswer(this.#dialect, task, first.parts)
    this.#entries.set(task.id, { task, sceneAt: (at) => play(acts, at - now) })
    return taskAnswer(this.#dialect, task, play(acts, 0))
  }

  get(taskId: string, now: number): Reply {
    return Result.map(this.#find(taskId), ({ sceneAt, task }) => taskAnswer(this.#dialect, task, sceneAt(now)))
  }

  cancel(taskId: string, now: number): Reply {
    return Result.flatMap(this.#find(taskId), ({ sceneAt, task }): Reply => {
      const scene = sceneAt(now)
      if (lastStates.has(scene.state)) return Result.fail({ code: -32002, message: "Task cannot be canceled" })
      const left = this.#obeysCancel ? become(scene, "canceled") : scene
      if (this.#obeysCancel) this.#entries.set(taskId, { task, sceneAt: () => left })
      return Result.succeed(taskAnswer(this.#dialect, task, left))
    })
  }

  #find(taskId: string): Result.Result<Entry, RpcError> {
    const entry = this.#entries.get(taskId)
    return entry === undefined ? Result.fail({ code: -32001, message: "Task not found" }) : Result.succeed(entry)
  }
}
