import { userMessage, type Codec } from "./Codec.ts"

/** bindu: A2A 0.3 with ids that the client makes, and output modes that have to be there. */
export const bindu: Codec = {
  dialect: "bindu",
  makeIds: (uuid) => ({ taskId: uuid(), contextId: uuid() }),
  sendParams: (outgoing, ids) => ({
    message: { ...userMessage(outgoing), ...ids },
    configuration: {
      blocking: false,
      acceptedOutputModes: outgoing.outputModes ?? ["text/plain", "application/json"]
    }
  }),
  taskIdNames: ["taskId", "task_id"],
  getParams: {}
}
