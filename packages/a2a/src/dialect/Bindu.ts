import { a2a03, userMessage } from "./A2a03.ts"
import type { Codec } from "./Codec.ts"

/** bindu: A2A 0.3 with ids that the client makes, and with output modes in every request. */
export const bindu: Codec = {
  ...a2a03,
  dialect: "bindu",
  ids: ({ contextId, taskId }, uuid) => ({ taskId: taskId ?? uuid(), contextId: contextId ?? uuid() }),
  sendParams: (outgoing) => ({
    message: userMessage(outgoing),
    configuration: {
      blocking: false,
      acceptedOutputModes: outgoing.outputModes ?? ["text/plain", "application/json"]
    }
  }),
  taskIdNames: ["taskId", "task_id"],
  getParams: {}
}
