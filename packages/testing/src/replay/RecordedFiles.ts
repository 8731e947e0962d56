import type { FileReference } from "@bowline/domain/session/Message"
import { FileRefused } from "@bowline/domain/plan/Refusal"
import type { ReceivedFile } from "@bowline/runtime/remote/PeerClient"
import { filesIn } from "@bowline/runtime/unstable/record/PlanExport"
import { chunkBytes, FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { type Fields, fieldsOf, type PlanRecording, type RecordedCall } from "./RecordFile.ts"

const refused = /^\[file (.*), which is not kept: (.*)\]$/

/** What stands for the bytes of a file that the replay does not need: who uploads it gets what its upload got. */
const standIn = (text: string): Buffer => Buffer.from(text)
const digestOf = (text: string): string => createHash("sha256").update(standIn(text)).digest("hex")

/** The file that an artifact tells of, with what stands for its bytes. */
export const fileOf = ({ content, file_id, media_type }: Fields): ReceivedFile | undefined => {
  if (typeof file_id === "string") return { mediaType: "", data: standIn(file_id).toString("base64") }
  const [line, name] = (media_type === "text/plain" && refused.exec(String(content))) || []
  return line === undefined || name === undefined
    ? undefined
    : { mediaType: "", name, data: standIn(line).toString("base64") }
}

const tooMany = "[another file, which is not kept: "

/** What a call gave beside its text: the last lines of its result are those of its files. */
export const withFiles = (call: RecordedCall, artifacts: ReadonlyArray<{ readonly data: Fields }>) => {
  const given = new Map(
    artifacts.flatMap(({ data }) => {
      const file = fileOf(data)
      return file === undefined ? [] : [[String(data["content"]), file] as const]
    })
  )
  const lines = (call.result ?? "").split("\n")
  const files: Array<ReceivedFile> = []
  for (let line = lines.at(-1); given.size > 0 && line !== undefined; line = lines.at(-1)) {
    const other = { mediaType: "", data: standIn(`${lines.length}`).toString("base64") }
    const file = line.startsWith(tooMany) ? other : given.get(line)
    if (file === undefined) break
    files.unshift(file)
    lines.pop()
  }
  return files.length === 0 ? { call } : { call: { ...call, result: lines.join("\n") }, files }
}

/** The stored files that a call of a local tool has named. */
export const referencesOf = ({ frames, messages }: PlanRecording, task_id: string): ReadonlyArray<FileReference> => {
  const given = new Set(frames.map(({ data }) => fieldsOf(data)["file_id"]))
  const parts = messages.flatMap((message) => message.parts)
  const result = parts.findIndex((part) => part.type === "tool_result" && part.task_id === task_id)
  const behind = result < 0 ? [] : parts.slice(result + 1)
  const end = behind.findIndex(({ type }) => type !== "file")
  return behind
    .slice(0, end < 0 ? undefined : end)
    .flatMap((part) => (part.type === "file" && "file_id" in part && !given.has(part.file_id) ? [part] : []))
}

/** Refuses the files that were refused. */
export const refusing = ({ frames }: PlanRecording, store: FileStore["Service"]): FileStore["Service"] => {
  const why = new Map(
    frames.flatMap(({ data }) => {
      const [line, , message] = refused.exec(String(fieldsOf(data)["content"])) ?? []
      return line === undefined || message === undefined ? [] : [[digestOf(line), message]]
    })
  )
  return {
    ...store,
    keep: (id, facts, quota) => {
      const message = why.get(facts.sha256)
      return message === undefined
        ? store.keep(id, facts, quota)
        : Effect.fail(new FileRefused({ code: "invalid_file", message }))
    }
  }
}

/** Why the plan cannot be run again with the files of its record, if so. */
export const fileObstacle = (recording: PlanRecording): string | undefined => {
  const broken = recording.files.find(
    ({ data, sha256 }) => createHash("sha256").update(Buffer.from(data, "base64")).digest("hex") !== sha256
  )
  return broken && `the bytes of ${broken.file_id} in the record are not those of its sha256`
}

/** Files of earlier messages that were deleted when the plan was exported, or of which the record does not say whether they were: they may have been deleted before the plan ran. */
const unsure = ({ begins, files, frames, messages, named, plan }: PlanRecording): ReadonlyArray<FileReference> => {
  const own = messages.filter(({ plan_id }) => plan_id === plan.plan_id)
  const there = [...files, ...named.filter(({ sha256 }) => sha256 !== null)]
  const sure = new Set([...there, ...filesIn({ begins, frames, messages: own })].map(({ file_id }) => file_id))
  return filesIn({ begins, frames, messages }).filter(({ file_id }) => !sure.has(file_id))
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
  return `some of its earlier files may have been deleted before it, and the record does not tell which: ${names}`
}

const farOff = "2999-01-01T00:00:00.000Z"

/** Stores the files that the plan found, but for those that are `away`: those without bytes are there by their names alone. */
export const storeFiles = Effect.fnUntraced(function* (recording: PlanRecording, away: ReadonlySet<string>) {
  const store = yield* FileStore
  const owner = recording.plan.caller
  // Their ids have the time at which they came.
  const files = filesIn(recording).toSorted((one, other) => (one.file_id < other.file_id ? -1 : 1))
  for (const { bytes, file_id, height, media_type, name, pages = null, width } of files) {
    if (away.has(file_id)) continue
    const { data = "" } = recording.files.find((file) => file.file_id === file_id) ?? {}
    const content = Buffer.from(data, "base64")
    yield* store.begin({ file_id, owner, until: farOff })
    for (let from = 0; from < bytes; from += chunkBytes) {
      yield* store.append(file_id, from / chunkBytes, content.subarray(from, from + chunkBytes), farOff)
    }
    const sha256 = digestOf(file_id)
    const times = { created_at: recording.plan.created_at, expires_at: farOff }
    const facts = { name, media_type, bytes, sha256, width, height, pages, purpose: null, ...times }
    yield* store.keep(file_id, facts, { caller: Infinity })
  }
})
