import type { Codec, Outgoing, Params } from "./Codec.ts"
import { taskIdOf, taskOf, updateOf } from "./WireTask.ts"

/** A message of kind `message`: text as a text part, arguments as a data part. */
export const userMessage = ({ content, files, ids, messageId, metadata, referenceTaskIds }: Outgoing): Params => ({
  kind: "message",
  role: "user",
  messageId,
  parts: [
    typeof content === "string" ? { kind: "text", text: content } : { kind: "data", data: content },
    ...files.map(({ mediaType: mimeType, name, ...sent }) => ({
      kind: "file",
      file: { name, mimeType, ...("url" in sent ? { uri: sent.url } : { bytes: sent.data }) }
    }))
  ],
  ...(ids.taskId !== null && { taskId: ids.taskId }),
  ...(ids.contextId !== null && { contextId: ids.contextId }),
  ...(referenceTaskIds.length > 0 && { referenceTaskIds }),
  metadata
})

/** A2A 0.3 over JSON-RPC: the ids come with the first answer. */
export const a2a03: Codec = {
  dialect: "a2a-0.3",
  headers: {},
  methods: {
    send: "message/send",
    stream: "message/stream",
    get: "tasks/get",
    cancel: "tasks/cancel",
    subscribe: "tasks/resubscribe"
  },
  ids: (known) => known,
  sendParams: (outgoing) => ({
    message: userMessage(outgoing),
    configuration: {
      blocking: false,
      ...(outgoing.outputModes !== undefined && { acceptedOutputModes: outgoing.outputModes })
    }
  }),
  taskIdNames: ["id"],
  // Some servers send the history only where it is requested.
  getParams: { historyLength: 100 },
  taskOf,
  taskIdOf,
  updateOf
}
