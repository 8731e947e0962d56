import type { Codec, Outgoing, Params } from "./Codec.ts"
import { taskIdOf, taskOf, updateOf } from "./WireTask10.ts"

const userMessage = ({ content, files, ids, messageId, metadata, referenceTaskIds }: Outgoing): Params => ({
  role: "ROLE_USER",
  messageId,
  parts: [
    typeof content === "string" ? { text: content } : { data: content, mediaType: "application/json" },
    ...files.map(({ mediaType, name: filename, ...sent }) => ({
      ...("url" in sent ? { url: sent.url } : { raw: sent.data }),
      filename,
      mediaType
    }))
  ],
  ...(ids.taskId !== null && { taskId: ids.taskId }),
  ...(ids.contextId !== null && { contextId: ids.contextId }),
  ...(referenceTaskIds.length > 0 && { referenceTaskIds }),
  metadata
})

/** A2A 1.0 over JSON-RPC. Without the version header a peer reads a request as one of 0.3. */
export const a2a10: Codec = {
  dialect: "a2a-1.0",
  headers: { "a2a-version": "1.0" },
  methods: {
    send: "SendMessage",
    stream: "SendStreamingMessage",
    get: "GetTask",
    cancel: "CancelTask",
    subscribe: "SubscribeToTask"
  },
  // Only the peer makes ids of tasks.
  ids: (known) => known,
  sendParams: (outgoing) => ({
    message: userMessage(outgoing),
    configuration: {
      returnImmediately: true,
      ...(outgoing.outputModes !== undefined && { acceptedOutputModes: outgoing.outputModes })
    }
  }),
  taskIdNames: ["id"],
  getParams: {},
  taskOf,
  taskIdOf,
  updateOf
}
