import { StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { pageEnd, pageQuery } from "../api/PageQuery.ts"
import {
  FileInUse,
  Forbidden,
  Internal,
  InvalidFile,
  InvalidRequest,
  MediaTypeMismatch,
  NotFound,
  PayloadTooLarge,
  QuotaExceeded,
  RangeNotSatisfiable,
  Unavailable
} from "../api/Problem.ts"

const file = StoredFile.annotate({ identifier: "StoredFile" })
const id = { id: Schema.String.annotate({ description: "`file_id` of the file" }) }
const failures = [Unavailable, Internal] as const
const content = { contentType: "application/octet-stream" }

/** One file of a form. */
const Form = Schema.Struct({ file: Schema.String.annotate({ format: "binary" }) }).pipe(
  HttpApiSchema.asMultipartStream()
)

export class FilesApi extends HttpApiGroup.make("files")
  .add(
    HttpApiEndpoint.post("upload", "/files", {
      payload: [HttpApiSchema.StreamUint8Array(content), Form],
      success: [file.pipe(HttpApiSchema.status(201)), file],
      error: [InvalidFile, PayloadTooLarge, QuotaExceeded, MediaTypeMismatch, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Store a file",
        description:
          "The body is the file, with its `Content-Type`, and its name in `Content-Disposition`; or it is a form with one file. 201; " +
          "200 for bytes that you have stored before: they are the same file."
      })
    ),
    HttpApiEndpoint.get("list", "/files", {
      query: pageQuery,
      success: Schema.Struct({ files: Schema.Array(file), ...pageEnd }),
      error: [InvalidRequest, ...failures]
    }).annotate(OpenApi.Summary, "Your files, newest first"),
    HttpApiEndpoint.get("get", "/files/:id", { params: id, success: file, error: [NotFound, ...failures] }).annotate(
      OpenApi.Summary,
      "What a file is"
    ),
    HttpApiEndpoint.get("content", "/files/:id/content", {
      params: id,
      query: {
        token: Schema.optionalKey(
          Schema.String.annotate({
            description: "Of a URL that an agent or an MCP server got: opens this file for an hour, without a key"
          })
        )
      },
      success: HttpApiSchema.StreamUint8Array(content),
      error: [Forbidden, NotFound, RangeNotSatisfiable, ...failures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "The bytes of a file",
        description:
          "Under its own media type. With `Range` a part of them (206), with `If-None-Match` none that you have (304)."
      })
    ),
    HttpApiEndpoint.delete("delete", "/files/:id", {
      params: id,
      success: HttpApiSchema.NoContent,
      error: [NotFound, FileInUse, ...failures]
    }).annotate(OpenApi.Summary, "Delete a file")
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Files") {}
