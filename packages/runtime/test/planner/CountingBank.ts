import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { callTool } from "@bowline/testing/provider/Turn"
import { Effect, Layer, type Latch } from "effect"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { inPlace, SchemaChecks } from "../../src/tool/SchemaChecks.ts"
import { bob } from "../plan/Bob.ts"

export const schema = { type: "object", properties: { order: { type: "string" }, note: { type: "string" } } }
const effect = { key: ["/order"], scope: "caller" }
export const checks = Layer.succeed(SchemaChecks, inPlace)
export const skills = [{ id: "pay", input_schema: schema, effect }]
export const bank = { ...bob, skills }
export const pay = (order: string, note = "") => callTool("bob_pay", { order, note })

/** A bank that counts what it was asked to pay. `hangs` never answers, `refuses` was never reached, `fails` says that it failed, `asks` wants to know more. */
export const counting = (...acts: ReadonlyArray<"pays" | "hangs" | "refuses" | "fails" | "asks" | Latch.Latch>) => {
  const paid: Array<string> = []
  /** What it says of the tasks that it has named, when somebody asks. It names none if there is nothing to say. */
  const answers: Array<"paid" | "failed" | "works" | "asks"> = []
  const continued: Array<string | null | undefined> = []
  const asked: Array<string> = []
  const keys: Array<string | undefined> = []
  const call: PeerClient["Service"]["call"] = (
    { continues, idempotencyKey, input, isHandedOver, resumes, taskId },
    onEvent
  ) =>
    Effect.gen(function* () {
      if (resumes !== undefined) {
        asked.push(`${resumes.taskId} of ${taskId}, ${isHandedOver?.() === true ? "left alone" : "cancelled"}`)
        const said = answers[asked.length - 1] ?? "paid"
        if (said === "works") return yield* Effect.never
        const known = { content: "the receipt", verified: "unknown" } as const
        if (said === "asks") return { ...known, state: "input-required" as const }
        return { ...known, state: said === "paid" ? ("completed" as const) : ("failed" as const) }
      }
      keys.push(idempotencyKey)
      continued.push(continues?.taskId)
      if (answers.length > 0) yield* onEvent({ _tag: "Accepted", remoteTaskId: "remote", remoteContextId: null })
      const act = acts[paid.length] ?? "pays"
      paid.push(typeof input["order"] === "string" ? input["order"] : "")
      const done = { content: `paid ${paid.length}`, verified: "unknown" } as const
      if (act === "hangs") return yield* Effect.never
      if (act === "fails") return { ...done, state: "failed" as const }
      if (act === "asks") return { ...done, state: "input-required" as const }
      if (act === "refuses") {
        return yield* new PeerError({ reason: new Unreachable({ message: "refused", code: "ECONNREFUSED" }) })
      }
      if (act !== "pays") yield* act.await
      return { ...done, state: "completed" as const }
    })
  return { paid, asked, keys, continued, answers, peers: { call } }
}
