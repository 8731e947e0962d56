import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { FilesConfig } from "@bowline/runtime/unstable/config/FilesConfig"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Effect, Struct } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { readFile } from "../http/FileBody.ts"
import * as FileContent from "../http/FileContent.ts"
import { answer } from "../http/Refusals.ts"

/** Takes files in, and gives them out. */
export const layer = HttpApiBuilder.group(
  Api,
  "files",
  Effect.fnUntraced(function* (handlers) {
    const files = yield* Files
    const store = yield* FileStore
    const { maxFile } = yield* FilesConfig
    const content = yield* FileContent.make

    return handlers
      .handleRaw("upload", ({ request }) =>
        Effect.gen(function* () {
          const caller = yield* Caller
          const { file, isNew } = yield* readFile(request, maxFile, (sent) => files.upload({ caller, ...sent }))
          return HttpServerResponse.jsonUnsafe(Struct.omit(file, ["pages", "purpose"]), { status: isNew ? 201 : 200 })
        }).pipe(answer)
      )
      .handle("list", ({ query: { cursor, limit } }) =>
        Effect.gen(function* () {
          const page = { limit, ...(cursor !== undefined && { cursor }) }
          const { items, next } = yield* store.list(yield* Caller, page)
          return { files: items, next_cursor: next }
        }).pipe(answer)
      )
      .handle("get", ({ params }) =>
        Effect.gen(function* () {
          return yield* store.find(yield* Caller, params.id)
        }).pipe(answer)
      )
      .handleRaw("content", ({ params, request }) =>
        Effect.gen(function* () {
          return yield* content(request, yield* store.find(yield* Caller, params.id))
        }).pipe(answer)
      )
      .handle("delete", ({ params }) =>
        Effect.gen(function* () {
          return yield* store.delete(yield* Caller, params.id)
        }).pipe(answer)
      )
  })
)
