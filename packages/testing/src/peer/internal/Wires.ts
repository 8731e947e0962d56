import type { Dialect } from "@bowline/domain/peer/Agent"
import { bareWire } from "./BareWire.ts"
import type { Wire } from "./Wire.ts"
import { wire10 } from "./Wire10.ts"

export const wires: { readonly [D in Dialect]: Wire } = {
  "a2a-1.0": wire10,
  "a2a-0.3": bareWire({ task: "taskId", context: "contextId", message: "messageId", artifact: "artifactId" }),
  bindu: bareWire({ task: "task_id", context: "context_id", message: "message_id", artifact: "artifact_id" })
}
