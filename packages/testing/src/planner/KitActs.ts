import { becomes, completes, data, file, produces, appends, works, type Act } from "../peer/Act.ts"

const output = { name: "output.txt", mimeType: "text/plain" }

/**
 * What the protocol's public kit (a2a-tck) wants of a message, by the prefix of its id. Of two prefixes the longer one counts. A direct
 * message instead of a task is not among them: the gateway answers each message with a task.
 */
const acts: Readonly<Record<string, ReadonlyArray<Act>>> = {
  "tck-complete-task": [completes("Hello from TCK")],
  "tck-artifact-text": [produces("Generated text content"), completes()],
  "tck-artifact-file": [produces([file({ ...output, bytes: "dGNr" })]), completes()],
  "tck-artifact-file-url": [produces([file({ ...output, uri: "https://example.com/output.txt" })]), completes()],
  "tck-artifact-data": [produces([data({ key: "value", count: 42 })]), completes()],
  "tck-message-response": [completes("Direct message response")],
  "tck-input-required": [becomes("input-required", "What else?")],
  "tck-auth-required": [becomes("auth-required", "Who are you?")],
  "tck-reject-task": [becomes("rejected", "rejected")],
  "tck-stream-001": [produces("Stream hello from TCK"), completes()],
  "tck-stream-002": [completes()],
  "tck-stream-003": [produces("Stream task lifecycle"), completes()],
  "tck-stream-ordering-001": [produces("Ordered output"), completes()],
  "tck-stream-artifact-text": [produces("Streamed text content"), completes()],
  "tck-stream-artifact-file": [produces([file({ ...output, bytes: "dGNr" })]), completes()],
  "tck-stream-artifact-chunked": [produces("chunk-1 "), appends("chunk-2"), completes()],
  // Twice the time that the kit waits for a stream.
  "test-resubscribe-message-id": [works("4 seconds"), completes()]
}

const prefixes = Object.keys(acts).toSorted((one, other) => other.length - one.length)

/** What a scripted planner does with the message of this id. One that the kit has no prefix for is completed. */
export const actsOf = (messageId: string): ReadonlyArray<Act> => {
  const prefix = prefixes.find((prefix) => messageId.startsWith(prefix)) ?? ""
  return acts[prefix] ?? [completes(`There is no script for ${messageId}`)]
}
