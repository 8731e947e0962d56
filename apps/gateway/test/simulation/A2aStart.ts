import { PlanId } from "@bowline/domain/plan/Plan"
import type { Options } from "@bowline/testing/simulation/Simulation"
import type { Door } from "@bowline/testing/unstable/simulation/Door"
import { Effect, Schema } from "effect"
import { acceptedRpc, decodeQuestion, onBlocks } from "./Answers.ts"
import type { Wire } from "./MemoryServer.ts"

type Rule = NonNullable<Options["rules"]>[string]

/** A task as the client that has sent its message has read it. */
export interface HeardTask {
  plan: PlanId | undefined
  /** The artifact `answer`. */
  text: string
  /** The last state; `error` if the gateway breaks the stream off. */
  state: string
  /** The last `seq`. */
  seq: number
  isClosed: boolean
}

const Status = Schema.Struct({ state: Schema.String })
const Artifact = Schema.Struct({
  artifactId: Schema.String,
  parts: Schema.Array(Schema.Struct({ text: Schema.optionalKey(Schema.String) }))
})
const decodeData = Schema.decodeUnknownSync(
  Schema.fromJsonString(
    Schema.Union([
      Schema.Struct({ error: Schema.Struct({ code: Schema.Int }) }),
      Schema.Struct({
        result: Schema.Struct({
          task: Schema.optionalKey(
            Schema.Struct({ id: PlanId, status: Status, artifacts: Schema.optionalKey(Schema.Array(Artifact)) })
          ),
          statusUpdate: Schema.optionalKey(Schema.Struct({ status: Status })),
          artifactUpdate: Schema.optionalKey(
            Schema.Struct({ append: Schema.optionalKey(Schema.Boolean), artifact: Artifact })
          )
        })
      })
    ])
  )
)

const hear = (heard: HeardTask, block: string): void => {
  if (block.startsWith(":")) return
  const [, id, data = ""] = /^(?:id: (\d+)\n)?data: (.*)$/.exec(block) ?? []
  if (id !== undefined) {
    if (Number(id) < heard.seq) throw new Error(`The event ${id} comes behind ${heard.seq}`)
    heard.seq = Number(id)
  }
  const told = decodeData(data)
  if ("error" in told) {
    heard.state = "error"
    return
  }
  const { artifactUpdate, statusUpdate, task } = told.result
  heard.plan ??= task?.id
  heard.state = (task ?? statusUpdate)?.status.state ?? heard.state
  const isAppended = artifactUpdate?.append === true
  for (const artifact of [...(task?.artifacts ?? []), ...(artifactUpdate ? [artifactUpdate.artifact] : [])]) {
    if (artifact.artifactId !== "answer") continue
    const text = artifact.parts.map((part) => part.text ?? "").join("")
    heard.text = isAppended ? heard.text + text : text
  }
}

const ends = ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"]
const waits = ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"]

/** Asks as a client of A2A 1.0 does. What comes shows only that the connection lives: behind the end of its task the caller reads the plan. */
export const make = (
  wire: Wire["Service"],
  all: Array<HeardTask>,
  read: Door["Service"]["read"]
): Door["Service"]["start"] => {
  let count = 0
  return ({ body, key }, { begin, take }) =>
    Effect.gen(function* () {
      const { agents, preferences, question, session_id } = decodeQuestion(body)
      const message = {
        messageId: key ?? `message-${count++}`,
        contextId: session_id,
        role: "ROLE_USER",
        parts: [{ text: question }],
        metadata: { bowline: { agents, preferences, idempotent: key !== undefined } }
      }
      const headers = { "content-type": "application/json", "a2a-version": "1.0" }
      const sent = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "SendStreamingMessage", params: { message } })
      const answer = yield* acceptedRpc(yield* wire.ask({ method: "POST", path: "/a2a", headers }, sent))
      const heard: HeardTask = { plan: undefined, text: "", state: "", seq: 0, isClosed: false }
      all.push(heard)
      yield* onBlocks(answer, (blocks) =>
        Effect.gen(function* () {
          const isNew = heard.plan === undefined
          for (const block of blocks) hear(heard, block)
          if (isNew && heard.plan !== undefined) yield* begin(heard.plan)
          yield* take(["ping"])
        })
      )
      heard.isClosed = true
      if (heard.plan !== undefined && ends.includes(heard.state)) {
        yield* read(heard.plan, 0, { begin: () => Effect.void, take })
      }
    }).pipe(Effect.scoped)
}

/** A stream of A2A ends with a state that is over or waits, or with an error, and it says the truth. */
export const rule =
  (all: Array<HeardTask>): Rule =>
  ({ plans }) =>
    // The next run begins with none.
    all.splice(0).flatMap(({ isClosed, plan: id, state, text }) => {
      const plan = plans.find(({ plan }) => plan.plan_id === id)
      if (!isClosed || plan === undefined) return []
      const { final, ...ended } = plan.plan
      if (state === "error" || waits.includes(state)) return []
      const isTrue =
        state === "TASK_STATE_COMPLETED"
          ? ended.state === "completed"
          : state === "TASK_STATE_CANCELED"
            ? ended.state === "aborted"
            : ends.includes(state) && ended.state !== "completed"
      if (!isTrue) return [`the task of ${plan.name} ends as ${state}, and the plan is ${ended.state}`]
      return final === null || text === final.text
        ? []
        : [`the task of ${plan.name} answers "${text}", the plan "${final.text}"`]
    })
