import type { FileReference } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fileLine } from "@bowline/domain/unstable/file/QuestionPart"
import { Effect } from "effect"
import type { Tool, ToolResult } from "./Tool.ts"

export const toolName = "view_file"

const notThere = "The session has no such file, or it was deleted"
const invalid: ToolResult = { state: "invalid", content: notThere, error: { code: "invalid", message: notThere } }

const away = "The files cannot be read now"
const failed: ToolResult = { state: "failed", content: away, error: { code: "unavailable", message: away } }

/** The tool with which the model looks at a file of the session again. `find` finds those that the session has. */
export const make = (find: (id: string) => Effect.Effect<FileReference | undefined, StorageError>): Tool => ({
  name: toolName,
  kind: "local",
  agent: null,
  endpoint: null,
  skill: null,
  description:
    "Shows a file of this conversation again, where only the line that stands for it is left: [image name, size, file_…].",
  inputSchema: {
    type: "object",
    properties: { file_id: { type: "string", description: "The id of the file, which begins with file_" } },
    required: ["file_id"],
    additionalProperties: false
  },
  timeoutMs: undefined,
  isIdempotent: true,
  isPolling: false,
  approval: "never",
  identify: Effect.succeed(null),
  call: ({ input: { file_id: id } }) =>
    find(typeof id === "string" ? id : "").pipe(
      Effect.map((file): ToolResult =>
        file === undefined ? invalid : { state: "completed", content: fileLine(file), files: [file] }
      ),
      Effect.orElseSucceed(() => failed)
    )
})
