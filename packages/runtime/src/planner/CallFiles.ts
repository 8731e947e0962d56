import type { PlanEvent, Verified } from "@bowline/domain/plan/PlanEvent"
import type { FileReference } from "@bowline/domain/session/Message"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Effect } from "effect"
import type { ReceivedFile } from "../remote/PeerClient.ts"
import type { ToolResult } from "../tool/Tool.ts"
import type { Kept, PlanFiles } from "./PlanFiles.ts"
import type { TaskEnd } from "./PlanTasks.ts"

/** How many files of one result are kept. */
const maxFiles = 20

/** What is told of a call while it runs. */
export type ShownEvent = Extract<PlanEvent, { readonly event: "task.progress" | "task.artifact" }>

/** A result whose files are stored. */
export type StoredResult = Omit<ToolResult, "files"> & Pick<TaskEnd, "references">

/** What is told of a file: its line, and where its bytes are. */
const shownFile = (task_id: TaskId, { file, line }: Kept, verified: Verified | undefined): ShownEvent => ({
  event: "task.artifact",
  data: {
    task_id,
    content: line,
    media_type: file?.media_type ?? "text/plain",
    truncated: false,
    ...(verified !== undefined && { verified }),
    ...(file !== undefined && { name: file.name, file_id: file.file_id })
  }
})

/** The files that one call gives: each is stored and told once, though the result has those of its artifacts again. */
export class CallFiles {
  readonly #task_id: TaskId
  readonly #keep: PlanFiles["keep"]
  readonly #show: (event: ShownEvent) => void
  readonly #kept = new Map<string, Kept>()

  constructor(task_id: TaskId, keep: PlanFiles["keep"], show: (event: ShownEvent) => void) {
    this.#task_id = task_id
    this.#keep = keep
    this.#show = show
  }

  /** Stores a file and tells of it. Undefined of one that is too many. */
  take(file: ReceivedFile, verified: Verified | undefined): Effect.Effect<Kept | undefined> {
    return Effect.suspend(() => {
      const key = "data" in file ? file.data : file.url
      const known = this.#kept.get(key)
      if (known !== undefined || this.#kept.size >= maxFiles) return Effect.succeed(known)
      return Effect.tap(this.#keep(file), (kept) =>
        Effect.sync(() => {
          this.#kept.set(key, kept)
          this.#show(shownFile(this.#task_id, kept, verified))
        })
      )
    })
  }

  /** Stores the files of the result. Their lines are the last ones of what the model reads. */
  ended({ files = [], ...result }: ToolResult): Effect.Effect<StoredResult> {
    if (files.length === 0) return Effect.succeed(result)
    return Effect.gen({ self: this }, function* () {
      const references: Array<FileReference> = []
      const lines: Array<string> = []
      for (const file of files) {
        if ("file_id" in file) references.push(file)
        else {
          const kept = yield* this.take(file, result.verified)
          lines.push(kept?.line ?? `[another file, which is not kept: of one result ${maxFiles} are]`)
          if (kept?.file !== undefined) references.push(kept.file)
        }
      }
      return { ...result, references, content: [result.content, ...lines].filter((text) => text !== "").join("\n") }
    })
  }
}
