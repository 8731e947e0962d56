import type { FileReference } from "@bowline/domain/session/Message"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import type { PlanRecording } from "./RecordFile.ts"

/** The files of the question and of the history, each once. */
const filesIn = ({ messages }: Pick<PlanRecording, "messages">): ReadonlyArray<FileReference> => {
  const all = messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === "file" && "file_id" in part ? [part] : []))
  )
  return Array.from(new Map(all.map((file) => [file.file_id, file])).values())
}

/** Why the plan cannot be run again with the files of its record, if so. */
export const fileObstacle = (recording: PlanRecording): string | undefined => {
  const broken = recording.files.find(
    ({ data, sha256 }) => createHash("sha256").update(Buffer.from(data, "base64")).digest("hex") !== sha256
  )
  return broken && `the bytes of ${broken.file_id} in the record are not those of its sha256`
}

/** The files of what was said before the plan, of which the record has no bytes: it does not tell whether they were deleted before it. */
const unsure = ({ files, messages, plan }: PlanRecording): ReadonlySet<string> => {
  const own = messages.filter(({ plan_id }) => plan_id === plan.plan_id)
  const sure = [...files, ...filesIn({ messages: own })].map(({ file_id }) => file_id)
  return new Set(filesIn({ messages }).map(({ file_id }) => file_id)).difference(new Set(sure))
}

export const isUnsure = (recording: PlanRecording): boolean => unsure(recording).size > 0

const farOff = "2999-01-01T00:00:00.000Z"

/** Stores the files that the plan found: those without bytes are there by their names alone, or not `withUnsure`. */
export const storeFiles = Effect.fnUntraced(function* (recording: PlanRecording, withUnsure: boolean) {
  const store = yield* FileStore
  const owner = recording.plan.caller
  const away = withUnsure ? new Set<string>() : unsure(recording)
  for (const { bytes, file_id, height, media_type, name, pages = null, width } of filesIn(recording)) {
    if (away.has(file_id)) continue
    const { data = "", sha256 = file_id } = recording.files.find((file) => file.file_id === file_id) ?? {}
    yield* store.begin({ file_id, owner, until: farOff })
    yield* store.append(file_id, 0, Buffer.from(data, "base64"), farOff)
    const times = { created_at: recording.plan.created_at, expires_at: farOff }
    const facts = { name, media_type, bytes, sha256, width, height, pages, purpose: null, ...times }
    yield* store.keep(file_id, facts, { caller: Infinity })
  }
})
