import type { FileReference, Message } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fileLine } from "@bowline/domain/unstable/file/QuestionPart"
import { Effect, Stream } from "effect"
import { FilesConfig } from "../config/FilesConfig.ts"
import { FileFetch, type Fetched, fetchTimeout } from "../file/FileFetch.ts"
import { Files } from "../file/Files.ts"
import { referenceOf } from "../file/QuestionFiles.ts"
import type { ReceivedFile } from "../remote/PeerClient.ts"
import { FileStore } from "../store/FileStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { PlanRun } from "./PlanRun.ts"

/** How many files of the session the model is told of, and how many it may look at again. */
const listed = 50
const atMost = 10_000

/** What became of a file that a tool gave: it is stored, or not, and the line says which. */
export interface Kept {
  readonly file: FileReference | undefined
  readonly line: string
}

/** The files of a plan's session, as far as the plan knows them. */
export interface PlanFiles {
  /** Those that the session had when the plan began, the newest one first. */
  readonly listed: ReadonlyArray<FileReference>
  /** Whether the session has any by now. */
  readonly hasAny: () => boolean
  /** Stores a file that a tool gave, as one of the session. */
  readonly keep: (file: ReceivedFile) => Effect.Effect<Kept>
  /** A file of the session. */
  readonly find: (id: string) => Effect.Effect<FileReference | undefined, StorageError>
}

/** What a file is called that has no name. */
const nameFor = (mediaType: string): string | undefined =>
  /^(image|audio|video)\/[a-z0-9]+$/.exec(mediaType)?.[0].replace("/", ".")

/** What an agent says of a file that it has elsewhere counts more than what that place says. */
const fetched = ({ content, said }: Fetched, { mediaType, name }: ReceivedFile): Fetched => ({
  content,
  said: () => ({ name: name ?? said().name, type: mediaType === "" ? said().type : mediaType })
})

const referencesIn = (history: ReadonlyArray<Message>): ReadonlyArray<FileReference> =>
  history.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "file" && "file_id" in part ? [part] : [])))

/** Knows the files of sessions, and stores what tools give. */
export const make = Effect.gen(function* () {
  const files = yield* Files
  const fetch = yield* FileFetch
  const store = yield* FileStore
  const { sessionQuota } = yield* FilesConfig

  /** A session has files that its history does not name only where a summary has covered a part of it. */
  return Effect.fnUntraced(function* (run: PlanRun, history: ReadonlyArray<Message>, isCovered: boolean) {
    const { caller, request, session_id } = run.given
    const asked = (request.question_parts ?? []).filter((part) => part.type === "file")
    const mayHave = isCovered || referencesIn(history).length > 0
    const stored = mayHave ? yield* retryWhileAway(store.ofSession(session_id, listed)) : []
    const known = mayHave ? stored.map(referenceOf) : Array.from(new Set(asked)).toReversed()
    let hasAny = known.length > 0

    const receive = Effect.fnUntraced(function* (given: ReceivedFile) {
      const { mediaType, name = nameFor(mediaType) } = given
      const said = () => ({ name, type: mediaType })
      const sent =
        "data" in given
          ? { content: Stream.fromIterable([Buffer.from(given.data, "base64")]), said }
          : fetched(fetch(given.url), given)
      const { file } = yield* files.upload({ caller, ...sent }).pipe(
        Effect.timeoutOrElse({
          duration: fetchTimeout,
          orElse: () => Effect.fail({ message: "it did not come within 10 seconds" })
        })
      )
      yield* store.attach(session_id, [file.file_id], sessionQuota)
      hasAny = true
      const reference = referenceOf(file)
      return { file: reference, line: fileLine(reference) }
    })

    const result: PlanFiles = {
      listed: known,
      hasAny: () => hasAny,
      keep: (file) =>
        receive(file).pipe(
          Effect.catch(({ message }) =>
            Effect.succeed({
              file: undefined,
              line: `[file ${file.name ?? file.mediaType}, which is not kept: ${message}]`
            })
          )
        ),
      find: (id) =>
        Effect.map(store.ofSession(session_id, atMost), (all) => {
          const found = all.find(({ file_id }) => file_id === id)
          return found === undefined ? undefined : referenceOf(found)
        })
    }
    return result
  })
})
