import { type McpCall, McpClient, type McpConnection, type McpTool } from "@bowline/runtime/remote/McpClient"
import {
  type Discovery,
  type PeerCall,
  PeerClient,
  type PeerEvent,
  type PeerResult
} from "@bowline/runtime/remote/PeerClient"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import type { Tool } from "@bowline/runtime/tool/LocalTools"
import type { OperatorRules } from "@bowline/runtime/unstable/record/PlanExport"
import { Context, Effect, Layer, type Schema } from "effect"
import type { Comparison } from "./Comparison.ts"
import { isEnding } from "./RecordedEnd.ts"
import { isUnsent, peerError, peerReason } from "./RecordedErrors.ts"
import { fileOf, referencesOf, withFiles } from "./RecordedFiles.ts"
import { isComparable, type Segment } from "./RecordedTakeovers.ts"
import {
  type Fields,
  fieldsOf,
  parsed,
  type PlanRecording,
  type RecordedCall,
  type RecordedFrame,
  written
} from "./RecordFile.ts"

/** The call for which a fiber asks, by its id in this run. */
export const CurrentCall = Context.Reference<string | undefined>("@bowline/testing/replay/CurrentCall", {
  defaultValue: () => undefined
})

/** A question of a peer or a server, as readers saw it. */
interface AskedOnRecord extends Fields {
  readonly isParked: boolean
}

const leftOut = /\n\[… (\d+) characters left out …\]\n/

/** The text of an artifact that was too long for its readers, out of the whole result. */
const whole = (shown: string, result: string): string => {
  const cut = leftOut.exec(shown)
  if (cut === null) return shown
  const [head, tail] = [shown.slice(0, cut.index), shown.slice(cut.index + cut[0].length)]
  const from = result.indexOf(head)
  const least = head.length + Number(cut[1]) + tail.length
  // A limit that is odd leaves out one more.
  const texts = [least, least + 1].map((length) => result.slice(from, from + length))
  return (from < 0 ? undefined : texts.find((text) => text.endsWith(tail))) ?? shown
}

const isAccountWait = (event: string, { kind }: Fields): boolean => event === "waiting" && kind === "account"

/** There was nothing with which the gateway could act as the caller. What was asked then is known by the place where it could be granted. */
const accountRequired = ({ message, url }: Fields): PeerError =>
  peerError({ _tag: "account_required", message, account: typeof url === "string" ? url : null })

const textIn = (fields: Fields, name: string): string => (typeof fields[name] === "string" ? fields[name] : "")

/** What the recorded call gives, as soon as all in front of it has come: what it told on its way, and its end; never, if it never ended. */
const endOf = Effect.fnUntraced(function* (
  recording: PlanRecording,
  comparison: Comparison,
  task_id: string,
  onEvent: (event: PeerEvent) => Effect.Effect<void>,
  showsArtifacts: boolean,
  ask: (question: AskedOnRecord) => Effect.Effect<unknown> = () => Effect.never
) {
  const recorded = yield* comparison.recordedTask(task_id)
  const call = recording.calls.find((one) => one.task_id === recorded)
  const own = comparison.expected.flatMap((frame, index) =>
    fieldsOf(frame.data)["task_id"] === recorded ? [{ index, event: frame.event, data: fieldsOf(frame.data) }] : []
  )
  const isRefused = call?.error?.code === call?.state && (call?.state === "rejected" || call?.state === "invalid")
  if (isRefused) {
    comparison.differ("call", `a call of ${call?.tool} that is refused`, `a call of ${call?.tool} that is made`)
    return yield* Effect.never
  }
  if (call?.remote_task_id != null) {
    const { remote_context_id: remoteContextId, remote_task_id: remoteTaskId } = call
    yield* onEvent({ _tag: "Accepted", remoteTaskId, remoteContextId })
  }
  let verified: unknown = "unknown"
  let isExpired = false
  // Another process goes on with the call: its peer tells once more where it is.
  const past = comparison.came.length
  // It has waited for an account, and goes on in the process that has told it.
  const account = own.findLast(({ data, event, index }) => isAccountWait(event, data) && index < past)?.index ?? past
  const hasTold = account < past && comparison.expected.slice(account, past).every(({ event }) => event !== "parked")
  const again = new Set<string>()
  const question = own.findLast(({ event, index }) => event === "waiting" && index < past)
  const end = own.find(({ event }) => event === "task.finished")
  const until = Math.min(comparison.to, end?.index ?? Infinity)
  /** Where the plan is parked while this process waits for the call, if it is. */
  const parked = comparison.expected
    .slice(0, until)
    .findIndex(({ event }, index) => index >= past && event === "parked")
  // Its peer has failed before it could be given the answer. The call of a plan that is parked waits for it.
  const isUngiven =
    parked < 0 &&
    recording.entries.some(
      ({ state, task_id, type }) => type === "answer" && task_id === recorded && state === "untaken"
    )
  const isByTime = call?.state === "timed-out" && call.error?.code === "timeout"
  // Its time was over before its peer has asked once more: while it waits, its time stands still.
  const isLate =
    isByTime &&
    parked < 0 &&
    own.find(({ index }) => index >= past) === end &&
    comparison.placeOfAnswer(recorded, question?.data["round"]) === undefined
  const tell = Effect.fnUntraced(function* ({ data, index }: (typeof own)[number]) {
    yield* comparison.turn(index)
    const { message, state } = data
    yield* onEvent({ _tag: "Progress", state: String(state), ...(typeof message === "string" && { message }) })
  })
  /** How far it tells, of a question that another process has shown, what it told before once more: until it gets the answer, asks again, or the plan is parked. */
  const retellsTo = (round: unknown) => {
    const answered = comparison.placeOfAnswer(recorded, round)
    const next = own.find(({ event, index }) => event === "waiting" && index >= past)?.index ?? Infinity
    return answered === undefined && parked < 0 ? past : Math.min(answered ?? next, parked < 0 ? Infinity : parked)
  }
  const told = new Set<number>()
  for (const one of own) {
    const { data, event, index } = one
    if ((index < past && (isUngiven || isLate || hasTold)) || told.has(index)) continue
    if (index < past && event === "waiting" && one !== question) continue
    if (index < past && event !== "waiting") {
      const shown = JSON.stringify(data)
      if (again.has(shown)) continue
      again.add(shown)
    }
    if (event === "waiting" && data["kind"] === "answer") {
      yield* comparison.turn(index)
      const retold = own.filter(
        (again) => again.event === "task.progress" && again.index >= past && again.index < retellsTo(data["round"])
      )
      for (const again of index < past ? retold : []) {
        told.add(again.index)
        yield* tell(again)
      }
      const isParked = comparison.expected[index + 1]?.event === "parked"
      isExpired = (yield* ask({ ...data, isParked })) === "expired"
    }
    if (isAccountWait(event, data) && index >= past) {
      yield* comparison.before(index)
      return yield* accountRequired(data)
    }
    if (event === "task.progress") yield* tell(one)
    if (event !== "task.artifact") continue
    verified = data["verified"]
    if (!showsArtifacts) continue
    yield* comparison.turn(index)
    const { content, media_type, name, truncated: isCut } = data
    const file = fileOf(data)
    if (file !== undefined) {
      const { mediaType } = file
      yield* onEvent({ _tag: "Artifact", content: null, mediaType, verified: written(verified), files: [file] })
      continue
    }
    yield* onEvent({
      _tag: "Artifact",
      content: isCut === true && typeof content === "string" ? whole(content, call?.result ?? "") : written(content),
      mediaType: String(media_type),
      verified: written(verified),
      ...(typeof name === "string" && { name })
    })
  }
  const artifacts = own.filter(({ event }) => event === "task.artifact")
  // With its files it has several, each of them at its end.
  const artifact = artifacts.find(({ index }) => index >= past) ?? artifacts.at(-1)
  if (call === undefined || end === undefined) return yield* Effect.never
  if (call.state === "interrupted" && !showsArtifacts && artifact !== undefined) {
    // It has given this, and nobody has stored its end.
    yield* comparison.turn(artifact.index)
    const given = artifacts.map(({ data }) => textIn(data, "content")).join("\n")
    return { ...withFiles({ ...call, state: "completed" as const, error: null, result: given }, artifacts), verified }
  }
  if (call.state === "interrupted" || (isByTime && !isExpired)) return yield* Effect.never
  yield* comparison.turn(showsArtifacts ? end.index : (artifact?.index ?? end.index))
  return { ...withFiles(call, artifacts), verified }
})

const errorOf = ({ error }: RecordedCall) => {
  const reason =
    error === null
      ? undefined
      : peerReason({ _tag: error.code, message: error.message, code: 0, status: 0, retryAfterMs: 0 })
  return reason === undefined || error === null ? undefined : peerError({ ...reason, message: error.message })
}

/** What an agent or a server tells, by `card` or `server` and its name, one time after the other. */
const toldBy = ({ frames, sources, texts }: PlanRecording, { came, nextStep, to }: Comparison, name: string) => {
  const told = sources.flatMap(({ place, sources: { [name]: source } }) => {
    if (source === undefined) return []
    const what = fieldsOf("told" in source ? source.told : JSON.parse(texts.get(source.digest) ?? "{}"))
    return [{ place: frames.slice(0, place).filter(isComparable).length, what }]
  })
  const next = told.findIndex(({ place }) => place >= came.length)
  /** What it has told stands in front of the step that has asked it, and of what the next process does. */
  const isNext = (index: number) => {
    const { place = Infinity } = told[index] ?? {}
    return place >= came.length && place < to && place <= nextStep
  }
  return { told, now: next < 0 ? told.length - 1 : next, isNext }
}

const noRules: OperatorRules = { withheld: [], recipes: [], always: [], sensitive: [], effects: {} }

/** What the operator's settings said of the tools of the plan, as this process found them. */
export const rulesOf = ({ frames, sources, texts }: PlanRecording, { from, to }: Segment): OperatorRules => {
  for (const {
    place,
    sources: { operator }
  } of sources) {
    const before = frames.slice(0, place).filter(isComparable).length
    if (operator === undefined || before < from || before >= to) continue
    return written("told" in operator ? operator.told : JSON.parse(texts.get(operator.digest) ?? "{}"))
  }
  return noRules
}

const lost = { _tag: "unreachable", message: "It is not on record what it has told" }

/** Of a process that was gone, or whose plan was aborted, before it had begun anything: nobody has waited for what they tell. */
const untold = ({ plan }: PlanRecording, { expected }: Comparison, { from, to }: Segment) => {
  const hasBegun = expected
    .slice(from, to)
    .some((frame) => frame.event !== "session" && frame.event !== "woken" && !isEnding(frame))
  const isLeft = plan.error?.reason !== undefined || to < Infinity
  return isLeft && !hasBegun ? Effect.never : Effect.fail(peerError(lost))
}

/** What a peer has told, for this call, of an earlier one that may have had the same effect. */
const toldOf = ({ claims }: PlanRecording, comparison: Comparison, current: string) => {
  const recorded = comparison.recordedIdOf(current)
  const { told } = claims.find(({ before, task_id }) => task_id === recorded && before === "approval") ?? {}
  return told === undefined
    ? Effect.fail(peerError(lost))
    : Effect.succeed(written<PeerResult>({ state: told.state, content: told.content, verified: "unknown" }))
}

/** Asks what the peer has asked. */
const askOf =
  (answer: PeerCall["answer"]) =>
  (asked: AskedOnRecord): Effect.Effect<unknown> =>
    answer === undefined
      ? Effect.void
      : answer({
          mark: String(asked["round"]),
          message: textIn(asked, "message"),
          ...("data" in asked && { data: written<Schema.Json>(asked["data"]) })
        })

/** Asks what the server has asked. It waits at an open connection where the plan was not parked. */
const askFor =
  (answer: McpCall["answer"]) =>
  (asked: AskedOnRecord): Effect.Effect<unknown> =>
    answer === undefined
      ? Effect.void
      : answer({
          message: textIn(asked, "message"),
          schema: written(asked["data"] ?? null),
          ...(typeof asked["url"] === "string" && { url: asked["url"] }),
          ...(asked.isParked && { mark: String(asked["round"]) })
        })

/** Whether the call was not sent, and the DID of its agent was not known. */
const isUnidentified = ({ calls, frames }: PlanRecording, call: string | undefined): boolean =>
  calls.some((one) => one.task_id === call && isUnsent(one)) &&
  frames.some(({ data, event }) => {
    const { agent_did, task_id } = fieldsOf(data)
    return event === "task.started" && task_id === call && agent_did === null
  })

const peersOf = (recording: PlanRecording, comparison: Comparison, segment: Segment) =>
  Layer.succeed(PeerClient, {
    discover: ({ name }) =>
      Effect.flatMap(CurrentCall, (current) => {
        // The time of the call was over before the card came.
        if (current !== undefined && isUnidentified(recording, comparison.recordedIdOf(current))) return Effect.never
        const { now, told } = toldBy(recording, comparison, `card ${name}`)
        const card = told[now]?.what
        if (card === undefined) return untold(recording, comparison, segment)
        return "error" in card
          ? Effect.fail(peerError(fieldsOf(card["error"])))
          : Effect.succeed(written<Discovery>(card))
      }),
    peers: Effect.succeed([]),
    cancel: () => Effect.void,
    call: ({ answer, taskId }, onEvent) =>
      Effect.flatMap(CurrentCall, (current) => {
        if (current !== undefined && current !== taskId) return toldOf(recording, comparison, current)
        return Effect.flatMap(
          endOf(recording, comparison, taskId, onEvent, true, askOf(answer)),
          ({ call, files, verified }) => {
            const error = errorOf(call)
            if (error !== undefined) return Effect.fail(error)
            return Effect.succeed({
              state: written(call.state),
              content: call.result ?? "",
              verified: written(verified),
              ...(files && { files })
            })
          }
        )
      })
  })

/** Whether a plan waits for an account before this server lists its tools. */
const isOfServer = ({ agent, kind, task_id }: Fields, name: string): boolean =>
  kind === "account" && task_id === null && agent === name

/** Why a server that has changed its tools could not list them again in front of the next step, as readers were told. */
const unlistedNext = ({ came, expected, nextStep }: Comparison, name: string): PeerError | undefined => {
  const notices = expected.slice(came.length, nextStep).map(({ data }) => fieldsOf(data))
  const told = notices.find(({ code, data }) => code === "mcp_unreachable" && fieldsOf(data)["server"] === name)
  const intro = `The MCP server ${name} cannot be reached. `
  return (
    told && peerError({ _tag: fieldsOf(told["data"])["reason"], message: textIn(told, "message").slice(intro.length) })
  )
}

/** Waits until the plan has heard what was said while a server listed its tools again: in front of the notice of that. */
const untilHeard = (comparison: Comparison): Effect.Effect<void> => {
  const { came, expected } = comparison
  const isMeanwhile = ({ event }: RecordedFrame) => event === "inbox.accepted" || event.startsWith("task.")
  const next = expected.findIndex((frame, index) => index >= came.length && !isMeanwhile(frame))
  return expected[next]?.event === "notice" ? comparison.before(next) : Effect.void
}

/** A connection to a server that has told this. */
export const connectionOf = (
  recording: PlanRecording,
  comparison: Comparison,
  name: string,
  segment: Segment
): Effect.Effect<McpConnection, PeerError> => {
  const asked = toldBy(recording, comparison, `server ${name}`)
  let shown = asked.now
  let unlisted: PeerError | undefined
  let meanwhile = Effect.void
  const told = asked.told[shown]?.what
  const wait = comparison.expected.findIndex(
    ({ data, event }, index) =>
      event === "waiting" && index >= comparison.came.length && isOfServer(fieldsOf(data), name)
  )
  if (wait >= 0) {
    const required = accountRequired(fieldsOf(comparison.expected[wait]?.data))
    return Effect.andThen(comparison.before(wait), Effect.fail(required))
  }
  if (told === undefined) return untold(recording, comparison, segment)
  if ("error" in told) return Effect.fail(peerError(fieldsOf(told["error"])))
  return Effect.succeed({
    description: typeof told["description"] === "string" ? told["description"] : null,
    tools: Effect.suspend(() =>
      Effect.andThen(
        meanwhile,
        unlisted === undefined
          ? Effect.succeed(written<ReadonlyArray<McpTool>>(asked.told[shown]?.what["tools"] ?? []))
          : Effect.fail(unlisted)
      )
    ),
    hasChanged: Effect.sync(() => {
      meanwhile = untilHeard(comparison)
      unlisted = unlistedNext(comparison, name)
      if (unlisted !== undefined) return true
      const { isNext } = toldBy(recording, comparison, `server ${name}`)
      const changes = isNext(shown + 1)
      if (changes) shown++
      return changes
    }),
    call: ({ answer, taskId, tool }, onProgress) => {
      const heard = (event: PeerEvent) => (event._tag === "Progress" ? onProgress(event.message ?? "") : Effect.void)
      return Effect.flatMap(endOf(recording, comparison, taskId, heard, false, askFor(answer)), ({ call, files }) => {
        const error = errorOf(call)
        if (error !== undefined) return Effect.fail(error)
        const text = call.result ?? ""
        return Effect.succeed({
          state: call.state === "completed" || call.state === "input-required" ? call.state : "failed",
          text,
          ...(files && { files }),
          structured: tool.outputSchema === null ? undefined : written(parsed(text))
        })
      })
    }
  })
}

const serversOf = (recording: PlanRecording, comparison: Comparison, segment: Segment) =>
  Layer.succeed(McpClient, {
    connect: ({ name }) => Effect.suspend(() => connectionOf(recording, comparison, name, segment)),
    servers: Effect.succeed([])
  })

/** A local tool as it was described, whose calls give what they gave. */
export const localTool = (recording: PlanRecording, comparison: Comparison, described: Fields): Tool =>
  written({
    agent: null,
    endpoint: null,
    skill: null,
    timeoutMs: undefined,
    approval: undefined,
    ...described,
    identify: Effect.succeed(null),
    call: ({ onEvent, taskId }: Parameters<Tool["call"]>[0]) =>
      Effect.map(endOf(recording, comparison, taskId, onEvent, false), ({ call, files = [] }) => ({
        state: call.state,
        content: call.result ?? "",
        files: [...files, ...referencesOf(recording, call.task_id)],
        ...(call.error !== null && { error: call.error })
      }))
  })

/** The agents and servers around the plan, out of its record. */
export const layer = (recording: PlanRecording, comparison: Comparison, segment: Segment) =>
  Layer.merge(peersOf(recording, comparison, segment), serversOf(recording, comparison, segment))
