import { PlanId } from "@bowline/domain/plan/Plan"
import { handedBack } from "@bowline/domain/tool/TaskState"
import { toEvent } from "@bowline/runtime/unstable/store/EventRow"
import type { Options } from "@bowline/testing/simulation/Simulation"
import type { Site } from "@bowline/testing/unstable/simulation/ReplicaClient"
import { Schema } from "effect"
import { causeOf, RpcError } from "./Answers.ts"
import { type BrokenOff, isExplained } from "./BrokenOff.ts"

type Rule = NonNullable<Options["rules"]>[string]
type Plan = Parameters<Rule>[0]["plans"][number]

/** A task as the client that has sent its message has read it. */
export interface HeardTask {
  plan: PlanId | undefined
  /** The artifact `answer`. */
  text: string
  /** The last state. */
  state: string
  /** The last `seq`; infinite for a task that came as a whole. */
  seq: number
  /** Why the stream breaks off, if it does. */
  broken: BrokenOff | undefined
  isClosed: boolean
  /** The ids of events that came behind later ones, or twice. */
  readonly repeated: Array<string>
}

export const newTask = (seq = 0): HeardTask => ({
  plan: undefined,
  text: "",
  state: "",
  seq,
  broken: undefined,
  isClosed: false,
  repeated: []
})

const Status = Schema.Struct({ state: Schema.String })
const Artifact = Schema.Struct({
  artifactId: Schema.String,
  parts: Schema.Array(Schema.Struct({ text: Schema.optionalKey(Schema.String) }))
})
const Task = Schema.Struct({ id: PlanId, status: Status, artifacts: Schema.optionalKey(Schema.Array(Artifact)) })
const Update = Schema.Struct({
  task: Schema.optionalKey(Task),
  statusUpdate: Schema.optionalKey(Schema.Struct({ status: Status })),
  artifactUpdate: Schema.optionalKey(Schema.Struct({ append: Schema.optionalKey(Schema.Boolean), artifact: Artifact }))
})
const decodeData = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Union([RpcError, Schema.Struct({ result: Update })]))
)
export const decodeTask = Schema.decodeUnknownSync(Task)
export const decodeUpdate = Schema.decodeUnknownSync(Update)

/** What a task, or a change of it, says. */
export const update = (heard: HeardTask, { artifactUpdate, statusUpdate, task }: typeof Update.Type): void => {
  heard.plan ??= task?.id
  heard.state = (task ?? statusUpdate)?.status.state ?? heard.state
  const isAppended = artifactUpdate?.append === true
  for (const artifact of [...(task?.artifacts ?? []), ...(artifactUpdate ? [artifactUpdate.artifact] : [])]) {
    if (artifact.artifactId !== "answer") continue
    const text = artifact.parts.map((part) => part.text ?? "").join("")
    heard.text = isAppended ? heard.text + text : text
  }
}

/** An event of a stream. Gives whether a client may come back behind it. */
export const hear = (heard: HeardTask, block: string, { process, world }: Site): boolean => {
  if (block.startsWith(":")) return false
  const [, id, data = ""] = /^(?:id: (\d+)\n)?data: (.*)$/.exec(block) ?? []
  if (id !== undefined) {
    if (Number(id) <= heard.seq) heard.repeated.push(id)
    heard.seq = Number(id)
  }
  const told = decodeData(data)
  if ("result" in told) update(heard, told.result)
  else heard.broken = { code: causeOf(told).code, replica: process.name, at: world.now }
  return id !== undefined
}

const ends = ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"]
const waits = ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"]

export const isOver = ({ state }: HeardTask): boolean => ends.includes(state)

/** Whether a call waited for an approval when the client had read so far, or a peer has handed a call back to the client. */
const isWaiting = ({ frames, plan }: Plan, { seq }: HeardTask): boolean => {
  const open = new Set<string>()
  let hasAsked = false
  let isHandedBack = false
  for (const [index, event] of frames.map(toEvent).entries()) {
    const isRead = (frames[index]?.seq ?? 0) <= seq
    if (event.event === "approval.requested" && isRead) {
      open.add(event.data.task_id)
      hasAsked = true
    }
    if (event.event === "approval.resolved" && isRead) open.delete(event.data.task_id)
    if (event.event === "task.finished") isHandedBack ||= handedBack.has(event.data.state)
  }
  return open.size > 0 || (seq === Infinity && hasAsked) || (isHandedBack && plan.state === "completed")
}

/** What a client was told that wanted a task cancelled, and when. */
export interface HeardCancel {
  readonly plan: PlanId
  readonly isCancelled: boolean
  /** In milliseconds of virtual time. */
  readonly at: number
}

/** A task that is told to be cancelled is aborted; one that cannot be cancelled is over. */
export const cancelRule =
  (all: Array<HeardCancel>): Rule =>
  ({ commits, plans }) =>
    // The next run begins with none.
    all.splice(0).flatMap(({ at, isCancelled, plan: id }) => {
      const plan = plans.find(({ plan }) => plan.plan_id === id)
      const isEnd = ({ _tag }: (typeof commits)[number]["changes"][number]) => _tag === "Settled"
      const isOver = commits.some(
        ({ plan_id, ...commit }) => plan_id === id && commit.at <= at && commit.changes.some(isEnd)
      )
      if (plan === undefined || (isCancelled ? plan.plan.state === "aborted" : isOver)) return []
      return [`the task of ${plan.name} is ${isCancelled ? "" : "not "}cancelled, and the plan is ${plan.plan.state}`]
    })

/** A task ends with a state that is over or waits, or breaks off for a reason, and it says the truth. */
export const rule =
  (all: Array<HeardTask>): Rule =>
  (observed) =>
    // The next run begins with none.
    all.splice(0).flatMap((heard) => {
      const { broken, isClosed, plan: id, repeated, state, text } = heard
      const plan = observed.plans.find(({ plan }) => plan.plan_id === id)
      const said = (what: string) => [`the task of ${plan?.name} ${what}`]
      if (repeated.length > 0) return said(`tells the events ${repeated.join()} again`)
      if (!isClosed || plan === undefined) return []
      if (broken !== undefined) return isExplained(observed, broken) ? [] : said(`breaks off with ${broken.code}`)
      if (waits.includes(state)) return isWaiting(plan, heard) ? [] : said(`is ${state}, and nothing waits`)
      const { final, ...ended } = plan.plan
      const isTrue =
        state === "TASK_STATE_COMPLETED"
          ? ended.state === "completed"
          : state === "TASK_STATE_CANCELED"
            ? ended.state === "aborted"
            : ends.includes(state) && ended.state !== "completed"
      if (!isTrue) return said(`ends as ${state}, and the plan is ${ended.state}`)
      return final === null || text === final.text ? [] : said(`answers "${text}", the plan "${final.text}"`)
    })
