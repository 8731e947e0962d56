import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import type { OpenAiFile } from "@bowline/protocol/unstable/openai/OpenAiFilesApi"
import { FilesConfig } from "@bowline/runtime/unstable/config/FilesConfig"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { FileStore, type KeptFile } from "@bowline/runtime/unstable/store/FileStore"
import { Effect, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { readFile } from "../../http/FileBody.ts"
import * as FileContent from "../../http/FileContent.ts"
import { answer, invalid } from "../../http/Refusals.ts"

/** The largest page, whatever a client asks for. */
const maxPage = 200

const inSeconds = (time: string): number => Math.floor(Date.parse(time) / 1_000)

const shown = ({ bytes, created_at, expires_at, file_id, name, purpose }: KeptFile): OpenAiFile => ({
  id: file_id,
  object: "file",
  bytes,
  created_at: inSeconds(created_at),
  expires_at: inSeconds(expires_at),
  filename: name,
  purpose: purpose ?? "user_data",
  status: "processed"
})

const noPurpose = invalid([
  { path: "purpose", message: "Expected a purpose, as user_data: 1 to 64 of a-z, A-Z, 0-9, - and _" }
])

/** OpenAI's Files over the files of `/files`: one that is stored here is found there, and the other way round. */
export const layer = HttpApiBuilder.group(
  Api,
  "openaiFiles",
  Effect.fnUntraced(function* (handlers) {
    const files = yield* Files
    const store = yield* FileStore
    const { maxFile } = yield* FilesConfig
    const content = yield* FileContent.make

    return handlers
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { file } = yield* readFile(request, maxFile, ({ said, ...sent }) => {
            // A form may say it behind the file. What was stored until then is discarded.
            const expectPurpose = Stream.fromEffectDrain(
              Effect.suspend(() => (/^[\w-]{1,64}$/.test(said().purpose ?? "") ? Effect.void : Effect.fail(noPurpose)))
            )
            return files.upload({ caller, said, content: Stream.concat(sent.content, expectPurpose) })
          })
          return HttpServerResponse.jsonUnsafe(shown(file))
        }).pipe(answer)
      )
      .handle("list", ({ query: { after, limit = maxPage, purpose } }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          if (after !== undefined) {
            const missing = () =>
              Effect.fail(invalid([{ path: "after", message: "Expected the id of one of your files" }]))
            yield* Effect.catchTag(store.find(caller, after), "NotFound", missing)
          }
          const filter = { ...(after !== undefined && { after }), ...(purpose !== undefined && { purpose }) }
          const { items, next } = yield* store.list(caller, { limit: Math.min(limit, maxPage) }, filter)
          const data = items.map(shown)
          const ends = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
          return { object: "list" as const, data, ...ends, has_more: next !== null }
        }).pipe(answer)
      )
      .handle("get", ({ params }) =>
        Effect.gen(function* () {
          return shown(yield* store.find(yield* Caller, params.id))
        }).pipe(answer)
      )
      .handleRaw("content", ({ params, request }) =>
        Effect.gen(function* () {
          return yield* content(request, yield* store.find(yield* Caller, params.id))
        }).pipe(answer)
      )
      .handle("delete", ({ params: { id } }) =>
        Effect.gen(function* () {
          yield* store.delete(yield* Caller, id)
          return { id, object: "file" as const, deleted: true as const }
        }).pipe(answer)
      )
  })
)
