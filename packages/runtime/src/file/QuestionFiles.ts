import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { AskRequest, PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { type FileRefused, InvalidRequest } from "@bowline/domain/plan/Refusal"
import type { FileReference } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import {
  deletedPart,
  type GivenPart,
  type GivenQuestion,
  maxFiles,
  type QuestionPart,
  textOf
} from "@bowline/domain/unstable/file/QuestionPart"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { Effect, identity, Stream } from "effect"
import { FileStore, type KeptFile } from "../store/FileStore.ts"
import { FileFetch, fetchTimeout } from "./FileFetch.ts"
import { fileAt, FileLinks, rootsOf } from "./FileLinks.ts"
import { Files } from "./Files.ts"

/** A question as plans have it: its text, and its parts if it has files. */
export interface WholeQuestion {
  readonly question: string
  readonly question_parts?: ReadonlyArray<QuestionPart>
}

/** What stands for a stored file in a history. */
export const referenceOf = ({ bytes, file_id, height, media_type, name, pages, width }: KeptFile): FileReference => ({
  type: "file",
  file_id,
  media_type,
  name,
  bytes,
  width,
  height,
  ...(pages !== null && { pages })
})

const inline = ({ data, media_type: type, name }: Extract<GivenPart, { readonly data: string }>) => ({
  content: Stream.fromIterable([Buffer.from(data, "base64")]),
  said: () => ({ name, type })
})

const tooSlow = { message: "The file did not come within 10 seconds" }

type Path = ReadonlyArray<PropertyKey>

/** Tells that a part is wrong. An unknown file and somebody else's get the same words. */
const wrong = (path: Path, field: string, message: string, code?: "quota_exceeded") =>
  new InvalidRequest({ issues: [{ path: [...path, field], message }], ...(code !== undefined && { code }) })

/**
 * Takes the files of a question in: those that come with it are stored, those that it names are looked up or fetched, side by side. Nothing is stored of a plan yet, and no later step has the bytes. `root` is the field of the parts.
 */
export const make = Effect.gen(function* () {
  const files = yield* Files
  const fetch = yield* FileFetch
  const store = yield* FileStore
  const { root } = yield* FileLinks
  const find = (caller: CallerName, id: FileId, path: Path, field: string) => {
    // A file that has been deleted since it was asked about does not end the conversation.
    const isTold = path[0] === "history"
    return store.find(caller, id).pipe(
      Effect.map(referenceOf),
      Effect.catchTag("NotFound", () =>
        isTold ? Effect.succeed(deletedPart(id)) : Effect.fail(wrong(path, field, "There is no such file"))
      )
    )
  }
  const toPart = Effect.fnUntraced(function* (
    caller: CallerName,
    part: GivenPart,
    path: Path
  ): Effect.fn.Return<QuestionPart, InvalidRequest | StorageError> {
    if (part.type === "text") return part
    if ("file_id" in part) return yield* find(caller, part.file_id, path, "file_id")
    if ("url" in part) {
      const own = fileAt(part.url, yield* rootsOf(root))
      if (own !== undefined) return yield* find(caller, own, path, "url")
    }
    const field = "url" in part ? "url" : "data"
    const refused = ({ message }: { readonly message: string }) => Effect.fail(wrong(path, field, message))
    const fileRefused = ({ code, message }: FileRefused) =>
      Effect.fail(wrong(path, field, message, code === "quota_exceeded" ? code : undefined))
    return yield* files.upload({ caller, ...("url" in part ? fetch(part.url) : inline(part)) }).pipe(
      "url" in part ? Effect.timeoutOrElse({ duration: fetchTimeout, orElse: () => refused(tooSlow) }) : identity,
      Effect.map(({ file }) => referenceOf(file)),
      Effect.catchTags({ FileRefused: fileRefused, FileUnfetched: refused, NotFound: refused })
    )
  })
  const toParts = (caller: CallerName, parts: ReadonlyArray<GivenPart>, path: Path) => {
    // Only those that are fetched take long. The others are stored in their order, in which they are listed.
    const concurrency = parts.some((part) => "url" in part) ? maxFiles : 1
    return Effect.forEach(parts, (part, index) => toPart(caller, part, [...path, index]), { concurrency })
  }

  const takeQuestion = Effect.fnUntraced(function* (
    caller: CallerName,
    given: GivenQuestion,
    root: string = "question"
  ): Effect.fn.Return<WholeQuestion, InvalidRequest | StorageError> {
    if (typeof given === "string") return { question: given }
    const question_parts = yield* toParts(caller, given, [root])
    const question = textOf(question_parts)
    return question_parts.some(({ type }) => type === "file") ? { question, question_parts } : { question }
  })

  return {
    takeQuestion,
    /** A request of an edge as plans have it. */
    takeRequest: Effect.fnUntraced(function* (
      caller: CallerName,
      { history, question, ...request }: AskRequest
    ): Effect.fn.Return<PlanRequest, InvalidRequest | StorageError> {
      const told = yield* Effect.forEach(history, ({ parts: given, ...entry }, index) =>
        given === undefined
          ? Effect.succeed(entry)
          : Effect.map(toParts(caller, given, ["history", index, "parts"]), (parts) => ({
              ...entry,
              content: textOf(parts),
              parts
            }))
      )
      return { ...request, ...(yield* takeQuestion(caller, question)), history: told }
    })
  }
})
