import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { FileId, StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import { FileLinks } from "@bowline/runtime/unstable/file/FileLinks"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import type { Followed } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Stream } from "effect"

/** A larger file is shown by its URL, if the gateway and the protocol have one. */
const maxInline = 1_048_576

/** What the files of one answer may have inline, together. Of others there is the line. */
const maxBytes = 8_388_608

/** A file of a tool, as an answer in another protocol shows it: its bytes in base64, or a URL that is good for an hour. */
export type ShownFile = Pick<StoredFile, "media_type" | "name"> & ({ readonly data: string } | { readonly url: string })

/** The files of one answer. An edge loads those of the events that come, before it tells the events. */
export interface ShownFiles {
  readonly load: (events: ReadonlyArray<PlanEvent>) => Effect.Effect<void>
  /** The same of frames, most of which are not parsed. */
  readonly loadFrames: (frames: ReadonlyArray<Followed<PlanFrame>>) => Effect.Effect<void>
  /** Loads the files of all frames of a stream. */
  readonly before: <E>(frames: Stream.Stream<Followed<PlanFrame>, E>) => Stream.Stream<Followed<PlanFrame>, E>
  /** A file that was loaded. Undefined of one that is gone, too large, or cannot be read. */
  readonly of: (file: FileId | undefined) => ShownFile | undefined
}

/** The `data:` URL of a file, or its URL. */
export const urlOf = (file: ShownFile): string =>
  "url" in file ? file.url : `data:${file.media_type};base64,${file.data}`

const filesOf = (events: ReadonlyArray<PlanEvent>): ReadonlyArray<FileId> =>
  events.flatMap((event) =>
    event.event === "task.artifact" && event.data.file_id !== undefined ? [event.data.file_id] : []
  )

export const make = Effect.gen(function* () {
  const files = yield* Files
  const store = yield* FileStore
  const links = yield* FileLinks

  const inline = Effect.fnUntraced(function* (file: StoredFile) {
    const pieces = yield* Stream.runCollect(files.content(file))
    return Buffer.concat(Array.from(pieces)).toString("base64")
  })

  /** Of the files of a caller. What has no place for URLs takes larger ones inline, too. */
  return (caller: CallerName, takesUrls = true): ShownFiles => {
    const shown = new Map<FileId, ShownFile>()
    let left = maxBytes

    const show = Effect.fnUntraced(function* (id: FileId) {
      const file = yield* store.find(caller, id)
      const { bytes, media_type, name } = file
      if (bytes > maxInline && takesUrls && links.urlOf !== undefined) {
        const url = yield* links.urlOf({ file: id, owner: caller, peer: caller })
        shown.set(id, { media_type, name, url })
        return
      }
      if (bytes > left) return
      left -= bytes
      shown.set(id, { media_type, name, data: yield* inline(file) })
    })
    // Of one that cannot be read its line tells.
    const load = (events: ReadonlyArray<PlanEvent>) =>
      Effect.forEach(filesOf(events), (id) => (shown.has(id) ? Effect.void : Effect.ignore(show(id))), {
        discard: true
      })
    const loadFrames = (items: ReadonlyArray<Followed<PlanFrame>>) =>
      load(
        items.flatMap((item) =>
          typeof item !== "string" && item.event === "task.artifact" && item.payload.includes('"file_id"')
            ? [toEvent(item)]
            : []
        )
      )
    return {
      load,
      loadFrames,
      before: Stream.mapArrayEffect((items) => Effect.as(loadFrames(items), items)),
      of: (file) => (file === undefined ? undefined : shown.get(file))
    }
  }
})
