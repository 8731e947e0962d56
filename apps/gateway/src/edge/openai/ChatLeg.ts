import type { Final } from "@bowline/domain/plan/Outcome"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import * as Usage from "@bowline/domain/plan/Usage"
import { type ShownFile, type ShownFiles, urlOf } from "../../http/ShownFiles.ts"
import { isImageType } from "@bowline/runtime/unstable/provider/FileText"
import { Array as Arr, Result } from "effect"
import { callId } from "../leg/ClientResults.ts"
import { PlanLegs } from "../leg/PlanLegs.ts"

/** What a message has of a file: an image where OpenRouter has it, any other file as the part of a message. */
const imageOf = (file: ShownFile) => ({ type: "image_url" as const, image_url: { url: urlOf(file) } })
const fileOf = (file: ShownFile) => ({
  type: "file" as const,
  file: { filename: file.name, file_data: urlOf(file) }
})

/** The part of a plan that one answer shows: behind the results that its request has `brought`, up to where it waits for others. */
export class ChatLeg {
  readonly #legs = new PlanLegs(["result"])
  readonly #brought: ReadonlySet<string>
  #hasBegun: boolean
  #usage: Usage.Usage = Usage.empty
  readonly #files: ShownFiles | undefined
  readonly #given = new Set<ShownFile>()

  constructor(brought: Iterable<string> = [], files?: ShownFiles) {
    this.#brought = new Set(brought)
    this.#files = files
    this.#hasBegun = this.#brought.size === 0
  }

  /** Takes an event in. Says whether it belongs to the answer. */
  next(event: PlanEvent): boolean {
    this.#legs.next(event)
    if (event.event === "task.finished" && this.#brought.has(event.data.task_id)) this.#hasBegun = true
    if (event.event === "final" || event.event === "error") this.#hasBegun = true
    if (event.event === "usage" && this.#hasBegun) this.#usage = Usage.add(this.#usage, event.data)
    if (event.event === "task.artifact" && this.#hasBegun) {
      const file = this.#files?.of(event.data.file_id)
      if (file !== undefined) this.#given.add(file)
    }
    return this.#hasBegun
  }

  get waits(): boolean {
    return this.#hasBegun && this.#legs.waits(this.#brought)
  }

  /** What the answer has used. */
  get usage(): Usage.Usage {
    return this.#usage
  }

  /** The files that tools have given, as fields of the message that has its content beside them. */
  get files() {
    const [images, others] = Arr.partition(this.#given, (file) =>
      isImageType(file.media_type) ? Result.succeed(imageOf(file)) : Result.fail(fileOf(file))
    )
    return { ...(images.length > 0 && { images }), ...(others.length > 0 && { files: others }) }
  }

  usageAt(final: Final): Usage.Usage {
    return this.#brought.size === 0 ? final.usage : this.#usage
  }

  /** The calls that the client is to make, as clients of OpenAI's API see them. */
  get calls() {
    return this.#legs.results
      .filter(({ task_id }) => !this.#brought.has(task_id))
      .map(({ input, task_id, tool }) => ({
        id: callId(task_id),
        type: "function" as const,
        function: { name: tool, arguments: JSON.stringify(input) }
      }))
  }
}
