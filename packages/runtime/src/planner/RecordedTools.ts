import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Agent } from "@bowline/domain/peer/Agent"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { DidSource, Verified } from "@bowline/domain/plan/PlanEvent"
import type { Fork } from "@bowline/domain/plan/PlanRequest"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Option, Schema } from "effect"
import { allRows, recordsOf } from "../record/PlanExport.ts"
import type { McpConnection, McpTool } from "../remote/McpClient.ts"
import type { Discovery } from "../remote/PeerClient.ts"
import { canonicalJson } from "../store/CanonicalJson.ts"
import { type EventRow, toFrames } from "../store/EventRow.ts"
import type { PlanStore, RecordedCall } from "../store/PlanStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { AgentDid, Tool, ToolResult } from "../tool/Tool.ts"
import { toolName as waitTool } from "../tool/WaitTool.ts"
import { isOwn } from "./DeclaredTools.ts"

const lost = new PeerError({
  reason: new Unreachable({ message: "It is not on record what it has told: a fork with recorded calls asks nobody" })
})

/** What this version has recorded is what it reads: it was told, or why it was not. */
const isTold = <A extends object>(told: object): told is A => !("error" in told)

const keyOf = (tool: string, input: Schema.Json): string => `${tool} ${canonicalJson(input)}`

const unrecorded = ({ name }: Tool): ToolResult => {
  const message = `The call was not made: this plan is a fork of another one, whose record has no call of ${name} with these arguments.`
  return { state: "rejected", content: message, error: { code: "unrecorded", message } }
}

const resultOf = (
  { error, result, state, task_id }: RecordedCall,
  verified: Verified | undefined
): ToolResult | undefined =>
  state === "running" || state === "interrupted" || result === null
    ? undefined
    : {
        state,
        content: result,
        ...(verified !== undefined && { verified }),
        ...(error !== null && { error }),
        repeat_of: task_id
      }

const decodeTold = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

const Seen = Schema.Struct({
  step: Schema.optionalKey(Schema.Int),
  task_id: Schema.optionalKey(Schema.String),
  tool: Schema.optionalKey(Schema.String),
  agent_did: Schema.optionalKey(Schema.NullOr(Schema.String)),
  agent_did_source: Schema.optionalKey(Schema.NullOr(DidSource)),
  verified: Schema.optionalKey(Verified)
})
const decodeSeen = Schema.decodeUnknownOption(Schema.fromJsonString(Seen))

/** What readers have seen of the calls of a plan. */
interface Calls {
  readonly steps: ReadonlyMap<string, number>
  readonly verified: ReadonlyMap<string, Verified>
  /** Who the agent of a tool was, by the tool. */
  readonly dids: ReadonlyMap<string, AgentDid>
}

/** Reads from the frames of a plan which step has made which call, and what was known of the agents. */
export const callsIn = (rows: ReadonlyArray<EventRow>): Calls => {
  const steps = new Map<string, number>()
  const verified = new Map<string, Verified>()
  const dids = new Map<string, AgentDid>()
  let last = 0
  for (const { event, payload } of rows.flatMap(toFrames)) {
    if (event !== "step" && event !== "task.started" && event !== "task.artifact") continue
    const seen: typeof Seen.Type = Option.getOrElse(decodeSeen(payload), () => ({}))
    const { agent_did, agent_did_source, step, task_id, tool } = seen
    if (event === "step") last = step ?? last
    if (task_id === undefined) continue
    if (event === "task.started") steps.set(task_id, last)
    if (seen.verified !== undefined) verified.set(task_id, seen.verified)
    if (tool !== undefined && agent_did != null && agent_did_source != null) {
      dids.set(tool, { did: agent_did, source: agent_did_source })
    }
  }
  return { steps, verified, dids }
}

/** The results of calls with the same arguments, and the place of the one that the next such call gets. */
interface Results {
  readonly all: Array<ToolResult>
  next: number
}

/**
 * What is on record of the plan that a fork goes on from, for a fork that makes no call: what its agents and servers have told of their tools, and what its
 * calls have given. The same calls get their results in the order in which they were made from the step of the fork on, then the last one again.
 */
export class RecordedTools {
  readonly #told: ReadonlyMap<string, object>
  readonly #results: ReadonlyMap<string, Results>
  readonly #dids: Calls["dids"]

  private constructor(told: ReadonlyMap<string, object>, results: ReadonlyMap<string, Results>, dids: Calls["dids"]) {
    this.#told = told
    this.#results = results
    this.#dids = dids
  }

  /** Nothing is on record of a plan that was deleted meanwhile. */
  static readonly read = Effect.fnUntraced(function* (
    store: PlanStore["Service"],
    caller: CallerName,
    { plan_id, step }: Fork
  ): Effect.fn.Return<RecordedTools, StorageError> {
    const { calls } = yield* retryWhileAway(store.recorded(caller, plan_id)).pipe(
      Effect.catchTag("NotFound", () => Effect.succeed({ calls: [] }))
    )
    const rows = yield* retryWhileAway(allRows(store, plan_id))
    const sources = rows
      .flatMap(recordsOf)
      .flatMap((record) => (record.type === "sources" ? Object.entries(record.sources) : []))
    const digests = sources.flatMap(([, source]) => ("digest" in source ? source.digest : []))
    const texts = yield* retryWhileAway(store.keptTexts([...new Set(digests)]))
    const told = new Map<string, object>()
    for (const [name, source] of sources) {
      const known = "told" in source ? source.told : Option.getOrUndefined(decodeTold(texts.get(source.digest)))
      if (known !== undefined && !told.has(name)) told.set(name, known)
    }
    const { dids, steps, verified } = callsIn(rows)
    const results = new Map<string, Results>()
    for (const call of calls) {
      const result = resultOf(call, verified.get(call.task_id))
      if (result === undefined) continue
      const key = keyOf(call.tool, call.input)
      const { all, next } = results.get(key) ?? { all: [], next: 0 }
      const isBefore = (steps.get(call.task_id) ?? step) < step
      results.set(key, { all: [...all, result], next: next + (isBefore ? 1 : 0) })
    }
    return new RecordedTools(told, results, dids)
  })

  /** What the agent told the other plan; else what it tells now. */
  discover({ name }: Agent, now: Effect.Effect<Discovery, PeerError>): Effect.Effect<Discovery, PeerError> {
    const told = this.#told.get(`card ${name}`)
    if (told === undefined) return now
    return isTold<Discovery>(told) ? Effect.succeed(told) : Effect.fail(lost)
  }

  /** A connection to a server that lists what it listed for the other plan; else to the server. */
  connect<R>(
    server: string,
    now: Effect.Effect<McpConnection, PeerError, R>
  ): Effect.Effect<McpConnection, PeerError, R> {
    const told = this.#told.get(`server ${server}`)
    if (told === undefined) return now
    if (!isTold<{ readonly description: string | null; readonly tools: ReadonlyArray<McpTool> }>(told)) {
      return Effect.fail(lost)
    }
    return Effect.succeed({
      description: told.description,
      tools: Effect.succeed(told.tools),
      hasChanged: Effect.succeed(false),
      call: () => Effect.fail(lost)
    })
  }

  /** The same tool, whose calls give what is on record, and need nobody's approval. */
  of(tool: Tool): Tool {
    if (isOwn(tool) && tool.name !== waitTool) return tool
    const { approvalReason: _, effect: __, trust: ___, ...described } = tool
    const call: Tool["call"] = (call) =>
      Effect.suspend(() => {
        const known = this.#results.get(keyOf(tool.name, call.input))
        if (known === undefined) return isOwn(tool) ? tool.call(call) : Effect.succeed(unrecorded(tool))
        const result = known.all[Math.min(known.next++, known.all.length - 1)]
        return Effect.succeed(result ?? unrecorded(tool))
      })
    const identify = Effect.succeed(this.#dids.get(tool.name) ?? null)
    return { ...described, isIdempotent: true, approval: "never", identify, call }
  }
}
