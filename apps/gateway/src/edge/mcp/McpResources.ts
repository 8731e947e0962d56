import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { type Plan, PlanId, type PlanSummary } from "@bowline/domain/plan/Plan"
import type { StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import { Plans } from "@bowline/runtime/plan/Plans"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Effect, Option, Schema, Stream } from "effect"
import { Base64, Base64Url } from "effect/encoding"
import { filesUri } from "./PlanAnswer.ts"
import { modern, type Revision } from "./Revision.ts"
import { code, type Params, RpcError } from "./RpcMessage.ts"

/** How many resources a page of the list has. */
const limit = 50

/** A larger file is not read here: as text of JSON it is a third larger. */
const maxBytes = 8_388_608

const plansUri = "bowline://plans/"

const describePlan = ({ finished_at, plan_id, question_preview }: PlanSummary) => ({
  uri: `${plansUri}${plan_id}`,
  name: plan_id,
  title: question_preview,
  description: "The answer of a plan that has completed",
  ...(finished_at !== null && { annotations: { lastModified: finished_at } })
})

const describeFile = ({ bytes, created_at, file_id, media_type, name }: StoredFile) => ({
  uri: `${filesUri}${file_id}`,
  name,
  mimeType: media_type,
  size: bytes,
  annotations: { lastModified: created_at }
})

const templates = [
  {
    uriTemplate: `${plansUri}{plan_id}`,
    name: "answer",
    description: "The answer of a plan of yours that has completed"
  },
  { uriTemplate: `${filesUri}{file_id}`, name: "file", description: "A file that you have stored" }
]

const wrong = (message: string) => new RpcError({ code: code.invalidParams, status: 200, message })

const notFound = (uri: string, revision: Revision) =>
  new RpcError({
    code: revision === modern ? code.invalidParams : code.resourceNotFound,
    status: 200,
    message: "There is no such resource: resources/list has those there are",
    data: { uri: uri.slice(0, 512) }
  })

const decodePlanId = Schema.decodeUnknownOption(PlanId)

/** Where a page begins: answers come first, and then files. */
const Cursor = Schema.fromJsonString(Schema.Tuple([Schema.Literals(["plans", "files"]), Schema.NullOr(Schema.Int)]))
const decodeCursor = Schema.decodeUnknownOption(Cursor)
const encodeCursor = (cursor: typeof Cursor.Type): string => Base64Url.encode(JSON.stringify(cursor))

const cursorOf = (cursor: unknown): Option.Option<typeof Cursor.Type> => {
  if (cursor === undefined) return Option.some(["plans", null])
  if (typeof cursor !== "string") return Option.none()
  return Option.flatMap(Option.getSuccess(Base64Url.decodeString(cursor)), decodeCursor)
}

/** What callers have here, as resources: the answers of their plans, and their files. */
export const make = Effect.gen(function* () {
  const plans = yield* Plans
  const files = yield* Files
  const store = yield* FileStore

  const list = Effect.fnUntraced(function* (caller: CallerName, params: Params) {
    const from = cursorOf(params["cursor"])
    if (Option.isNone(from)) return yield* wrong("Wrong: params.cursor. Expected the nextCursor of a page")
    const [kind, cursor] = from.value
    const page = { limit, ...(cursor !== null && { cursor }) }
    if (kind === "plans") {
      const { items, next } = yield* plans.list(caller, { states: ["completed"] }, page)
      return {
        resources: items.map(describePlan),
        nextCursor: encodeCursor(next === null ? ["files", null] : [kind, next])
      }
    }
    const { items, next } = yield* store.list(caller, page)
    return { resources: items.map(describeFile), ...(next !== null && { nextCursor: encodeCursor([kind, next]) }) }
  })

  const readFile = Effect.fnUntraced(function* (caller: CallerName, uri: string) {
    const file = yield* store.find(caller, uri.slice(filesUri.length))
    const { bytes, file_id, media_type: mimeType } = file
    if (bytes > maxBytes) {
      return yield* wrong(`The file has more than ${maxBytes} bytes: GET /files/${file_id}/content has it`)
    }
    const content = new Uint8Array(bytes)
    let at = 0
    yield* Stream.runForEach(files.content(file), (chunk) =>
      Effect.sync(() => {
        content.set(chunk, at)
        at += chunk.byteLength
      })
    )
    return mimeType.startsWith("text/")
      ? { uri, mimeType, text: new TextDecoder().decode(content) }
      : { uri, mimeType, blob: Base64.encode(content) }
  })

  const readPlan = (uri: string, { final }: Plan) => {
    if (final === null) return undefined
    const { output, text } = final
    return output === undefined
      ? { uri, mimeType: "text/plain", text }
      : { uri, mimeType: "application/json", text: JSON.stringify(output) }
  }

  const read = Effect.fnUntraced(function* (caller: CallerName, uri: string) {
    if (uri.startsWith(filesUri)) return yield* readFile(caller, uri)
    const id = uri.startsWith(plansUri) ? decodePlanId(uri.slice(plansUri.length)) : Option.none()
    return Option.isNone(id) ? undefined : readPlan(uri, yield* plans.get(caller, id.value))
  })

  return {
    "resources/list": list,
    "resources/templates/list": () => Effect.succeed({ resourceTemplates: templates }),
    "resources/read": Effect.fnUntraced(function* (
      caller: CallerName,
      { uri }: Params,
      revision: Revision
    ): Effect.fn.Return<object, RpcError | NotFound | StorageError> {
      if (typeof uri !== "string") return yield* wrong("Wrong: params.uri. Expected the uri of a resource")
      const found = yield* Effect.catchTag(read(caller, uri), "NotFound", () => Effect.void)
      return found === undefined ? yield* notFound(uri, revision) : { contents: [found] }
    })
  }
})
