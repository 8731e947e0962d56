import { userMessage, type Codec } from "./Codec.ts"

/** A2A 0.3 over JSON-RPC: the ids come with the first answer. */
export const a2a03: Codec = {
  dialect: "a2a-0.3",
  makeIds: () => null,
  sendParams: (outgoing) => ({
    message: userMessage(outgoing),
    configuration: {
      blocking: false,
      ...(outgoing.outputModes !== undefined && { acceptedOutputModes: outgoing.outputModes })
    }
  }),
  taskIdNames: ["id"],
  // Some servers leave the history out unless they are asked for it.
  getParams: { historyLength: 100 }
}
