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
const unsure = ({ files, messages, plan }: PlanRecording): ReadonlyArray<FileReference> => {
  const own = messages.filter(({ plan_id }) => plan_id === plan.plan_id)
  const sure = new Set([...files, ...filesIn({ messages: own })].map(({ file_id }) => file_id))
  return filesIn({ messages }).filter(({ file_id }) => !sure.has(file_id))
}

/** Each one more doubles the runs of a plan that is not the same. */
const maxUnsure = 4

/** What may have been deleted before the plan: every choice of the files that the record does not tell of, but none. Of many files only that all of them were. */
export const deletions = (recording: PlanRecording): ReadonlyArray<ReadonlySet<string>> => {
  const ids = unsure(recording).map(({ file_id }) => file_id)
  if (ids.length > maxUnsure) return [new Set(ids)]
  return Array.from(
    { length: 2 ** ids.length - 1 },
    (_, choice) => new Set(ids.filter((_id, at) => ((choice + 1) >> at) & 1))
  )
}

/** Why a plan that is not the same with any of the `deletions` may still be what it was. */
export const unsureObstacle = (recording: PlanRecording): string | undefined => {
  const files = unsure(recording)
  if (files.length <= maxUnsure) return undefined
  const names = files.map(({ name }) => name).join(", ")
  return `some of its earlier files may have been deleted before it, and the record does not tell which (${names}): export it with --files`
}

const farOff = "2999-01-01T00:00:00.000Z"

/** Stores the files that the plan found, but for those that are `away`: those without bytes are there by their names alone. */
export const storeFiles = Effect.fnUntraced(function* (recording: PlanRecording, away: ReadonlySet<string>) {
  const store = yield* FileStore
  const owner = recording.plan.caller
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
