import { Schema, SchemaTransformation } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { Parameter } from "../api/PageQuery.ts"
import { failures } from "./OpenAiApi.ts"

/** A file as OpenAI's clients see it. Times are in seconds. */
export const OpenAiFile = Schema.Struct({
  id: Schema.String,
  object: Schema.tag("file"),
  bytes: Schema.Int,
  created_at: Schema.Int,
  expires_at: Schema.Int,
  filename: Schema.String,
  purpose: Schema.String,
  status: Schema.tag("processed")
}).annotate({ identifier: "OpenAiFile" })
export type OpenAiFile = typeof OpenAiFile.Type

const params = { id: Schema.String.annotate({ description: "`file_id` of the file" }) }

const Form = Schema.Struct({ file: Schema.String.annotate({ format: "binary" }), purpose: Schema.String }).pipe(
  HttpApiSchema.asMultipartStream()
)

const limit = "Expected an integer between 1 and 10000"
const Limit = Parameter.check(Schema.isPattern(/^(?:[1-9]\d{0,3}|10000)$/u, { message: limit })).pipe(
  Schema.decodeTo(Schema.Int, SchemaTransformation.numberFromString)
)

/** OpenAI's Files: the files of `/files`, in the words of its clients. */
export class OpenAiFilesApi extends HttpApiGroup.make("openaiFiles")
  .add(
    HttpApiEndpoint.post("create", "/v1/files", { payload: Form, success: OpenAiFile, error: failures }).annotate(
      OpenApi.Summary,
      "Store a file as a client of OpenAI"
    ),
    HttpApiEndpoint.get("list", "/v1/files", {
      query: {
        limit: Schema.optionalKey(Limit.annotate({ description: "Entries of a page: 200 at most" })),
        order: Schema.optionalKey(
          Schema.Literals(["desc"]).annotate({ message: "Expected desc: files are listed newest first" })
        ),
        purpose: Schema.optionalKey(Parameter),
        after: Schema.optionalKey(Parameter.annotate({ description: "The id of the last file of the page before" }))
      },
      success: Schema.Struct({
        object: Schema.tag("list"),
        data: Schema.Array(OpenAiFile),
        first_id: Schema.NullOr(Schema.String),
        last_id: Schema.NullOr(Schema.String),
        has_more: Schema.Boolean
      }),
      error: failures
    }).annotate(OpenApi.Summary, "Your files, newest first"),
    HttpApiEndpoint.get("get", "/v1/files/:id", { params, success: OpenAiFile, error: failures }).annotate(
      OpenApi.Summary,
      "What a file is"
    ),
    HttpApiEndpoint.get("content", "/v1/files/:id/content", {
      params,
      success: HttpApiSchema.StreamUint8Array({ contentType: "application/octet-stream" }),
      error: failures
    }).annotate(OpenApi.Summary, "The bytes of a file"),
    HttpApiEndpoint.delete("delete", "/v1/files/:id", {
      params,
      success: Schema.Struct({ id: Schema.String, object: Schema.tag("file"), deleted: Schema.tag(true) }),
      error: failures
    }).annotate(OpenApi.Summary, "Delete a file")
  )
  .middleware(Authorization)
  .annotateEndpoints(HttpApi.QueryParseOptions, { errors: "all", onExcessProperty: "ignore" })
  .annotate(OpenApi.Title, "OpenAI Files") {}
