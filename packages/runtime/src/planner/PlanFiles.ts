import type { FileReference, Message } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fileLine } from "@bowline/domain/unstable/file/QuestionPart"
import { Effect, Stream } from "effect"
import { FilesConfig } from "../config/FilesConfig.ts"
import { FileLinks } from "../file/FileLinks.ts"
import { FileFetch, type Fetched, fetchTimeout } from "../file/FileFetch.ts"
import { Files } from "../file/Files.ts"
import { referenceOf } from "../file/QuestionFiles.ts"
import type { ReceivedFile, SentFile } from "../remote/PeerClient.ts"
import { FileStore } from "../store/FileStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import * as FileArguments from "../tool/FileArguments.ts"
import type { TaskCall, Tool, ToolInput } from "../tool/Tool.ts"
import type { PlanRun } from "./PlanRun.ts"

/** How many files of the session the model is told of, and how many it may look at again. */
const listed = 50
const atMost = 10_000

/** Bytes of all files that go with one call themselves. */
const maxSent = 8_388_608

/** A larger file goes to an agent as a URL, if the gateway has one. */
const maxInline = 1_048_576

/** The type that says nothing of a file. */
const anyType = "application/octet-stream"

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
  /** Says what is wrong with the files that the arguments of a call name, if anything. Tools that this process runs look for files themselves. */
  readonly problem: (tool: Tool, input: ToolInput) => Effect.Effect<string | undefined, StorageError>
  /** What a call is sent with. Undefined where a file is gone. */
  readonly sentWith: (
    tool: Tool,
    input: ToolInput
  ) => Effect.Effect<Pick<TaskCall, "files" | "input"> | undefined, StorageError>
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
  const { urlOf } = yield* FileLinks

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

    const find: PlanFiles["find"] = (id) =>
      Effect.map(store.ofSession(session_id, atMost), (all) => {
        const found = all.find(({ file_id }) => file_id === id)
        return found === undefined ? undefined : referenceOf(found)
      })
    const argumentsOf = ({ inputSchema, kind }: Tool, input: ToolInput) =>
      kind === "peer" || kind === "mcp" ? FileArguments.find(inputSchema, input) : []
    const read = Effect.fnUntraced(function* (file: FileReference) {
      const pieces = yield* Stream.runCollect(files.content(file))
      return Buffer.concat(Array.from(pieces)).toString("base64")
    })
    /** Makes the URL that goes in the place of a file. Undefined where its bytes go. */
    const linkOf = ({ endpoint, kind, name }: Tool, isBase64: boolean, { bytes, file_id: file }: FileReference) =>
      (kind === "mcp" ? isBase64 : bytes <= maxInline)
        ? undefined
        : urlOf?.({ file, owner: caller, peer: endpoint ?? name })

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
      problem: Effect.fnUntraced(function* (tool, input) {
        let bytes = 0
        for (const { id, isBase64, mediaType, path } of argumentsOf(tool, input)) {
          const file = yield* find(id)
          const at = `input.${path.join(".")}`
          if (file === undefined)
            return `${at}: Expected the id of a file of this conversation, which begins with file_`
          if (mediaType !== undefined && mediaType !== anyType && mediaType !== file.media_type) {
            return `${at}: Expected a file of type ${mediaType}, and ${file.name} is ${file.media_type}`
          }
          if (linkOf(tool, isBase64, file) !== undefined) continue
          if (tool.kind === "mcp" && !isBase64) {
            return `${at}: The server wants a URL of the file, and this gateway gives none without BOWLINE_PUBLIC_URL. A schema with contentEncoding base64 gets its bytes`
          }
          bytes += file.bytes
        }
        if (bytes <= maxSent) return undefined
        const why = `The files of a call may have ${maxSent} bytes together, and these have ${bytes}`
        return tool.kind === "mcp" || urlOf !== undefined
          ? why
          : `${why}. With BOWLINE_PUBLIC_URL the gateway would send their URLs`
      }),
      sentWith: Effect.fnUntraced(
        function* (tool, input) {
          const sent: Array<SentFile> = []
          const contents: Array<readonly [FileArguments.FileArgument, string]> = []
          for (const argument of argumentsOf(tool, input)) {
            const file = yield* find(argument.id)
            if (file === undefined) return undefined
            const link = linkOf(tool, argument.isBase64, file)
            const content = link === undefined ? { data: yield* read(file) } : { url: yield* link }
            if (tool.kind === "mcp") contents.push([argument, content.data ?? content.url])
            else sent.push({ mediaType: file.media_type, name: file.name, ...content })
          }
          return { input: FileArguments.withContents(input, contents), ...(sent.length > 0 && { files: sent }) }
        },
        Effect.catchTag("NotFound", () => Effect.undefined)
      ),
      find
    }
    return result
  })
})
