import type { WokenBy } from "@bowline/domain/plan/Outcome"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import * as Usage from "@bowline/domain/plan/Usage"
import type { ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import type { SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { traceIdOf } from "../../remote/PeerClient.ts"
import { Schema } from "effect"
import * as PlanGist from "../../store/PlanGist.ts"
import type { Charge, EffectClaim, Guard, NewPlan, PlanChange, Spent } from "../../store/PlanStore.ts"
import { type KnownToolId, knownUntil } from "../../store/InboxStore.ts"
import type { ReplicaId } from "../../store/LeaseStore.ts"
import { MemoryBound } from "./MemoryBound.ts"
import type {
  ChargeRecord,
  ClaimRecord,
  FileRecord,
  PlanRecord,
  ScheduleRecord,
  SessionRecord,
  KnownTool,
  PushRecord
} from "./MemoryRecords.ts"

const uncharged = { plans: 0, tool_calls: 0, usage: Usage.empty, cost_usd: 0, unpriced: 0 }

const nameOf = (owner: CallerName, name: string): string => `${owner}\n${name}`

interface TakenKey {
  readonly plan_id: PlanId
  readonly body: string
  readonly expires_at: string
}

/** Every change happens between two waits, so that each operation is a transaction. */
export class Memory {
  readonly sessions = new Map<SessionId, SessionRecord>()
  readonly plans = new Map<PlanId, PlanRecord>()
  /** The plans that are not over. */
  readonly open = new Map<PlanId, PlanRecord>()
  /** By task and id. */
  readonly pushes = new Map<PlanId, Map<string, PushRecord>>()
  readonly files = new Map<FileId, FileRecord>()
  /** By owner and id of the tool, also those that have expired. */
  readonly knownTools = new Map<string, KnownTool>()
  /** By owner and key, also those that have expired. */
  readonly effects = new Map<string, ClaimRecord>()
  readonly schedules = new Map<ScheduleId, ScheduleRecord>()
  readonly replicas = new Map<ReplicaId, number>()
  /** What was charged, by owner, and by day, model and preset. */
  readonly charges = new Map<CallerName, Map<string, ChargeRecord>>()
  /** Idempotency keys, also those that have expired or whose plan is gone. */
  readonly keys = new Map<string, TakenKey>()
  /** Texts of the operator, by digest. */
  readonly texts = new Map<string, string>()
  readonly #names = new Map<string, SessionRecord>()
  readonly #bound: MemoryBound<SessionRecord>
  #ordinal = 0

  /** `maxBytes` is what all sessions may have before idle ones are dropped. */
  constructor(maxBytes: number) {
    this.#bound = new MemoryBound(maxBytes, (session) => this.remove(session))
  }

  nextOrdinal(): number {
    return ++this.#ordinal
  }

  add(session: SessionRecord): void {
    this.sessions.set(session.session_id, session)
    this.#names.set(nameOf(session.owner, session.session_id), session)
    if (session.external_session_id !== null) {
      this.#names.set(nameOf(session.owner, session.external_session_id), session)
    }
  }

  remove(session: SessionRecord): void {
    this.sessions.delete(session.session_id)
    this.#names.delete(nameOf(session.owner, session.session_id))
    if (session.external_session_id !== null) this.#names.delete(nameOf(session.owner, session.external_session_id))
    const others = Array.from(this.sessions.values())
    for (const id of session.files) if (!others.some(({ files }) => files.has(id))) this.files.delete(id)
    for (const id of session.plans) {
      this.plans.delete(id)
      this.pushes.delete(id)
    }
    this.#bound.remove(session)
  }

  /** Counts what is stored for the session. */
  grow(session: SessionRecord, value: unknown): void {
    this.#bound.grow(session, value)
  }

  /** Somebody uses the session, or has just stopped to: the bound looks whether others have to go. */
  touch(session: SessionRecord): void {
    if (this.sessions.get(session.session_id) === session) this.#bound.touch(session)
  }

  /** By the gateway's id, or by the owner's name of it. */
  findSession(owner: CallerName, id: string): SessionRecord | undefined {
    const session = this.#names.get(nameOf(owner, id))
    if (session !== undefined) this.touch(session)
    return session
  }

  /** The plan that the owner's key stands for at this time. */
  findKey(owner: CallerName, key: string, now: string): TakenKey | undefined {
    const taken = this.keys.get(nameOf(owner, key))
    return taken !== undefined && taken.expires_at > now && this.plans.has(taken.plan_id) ? taken : undefined
  }

  knownTool(owner: CallerName, tool: KnownToolId): KnownTool | undefined {
    return this.knownTools.get(nameOf(owner, tool))
  }

  know(owner: CallerName, tool: KnownToolId, digest: string, now: string): void {
    this.knownTools.set(nameOf(owner, tool), { digest, expires_at: knownUntil(now).expires_at })
  }

  claim(
    { owner, plan }: PlanRecord,
    { at, expires_at, follows, key, task_id, tool }: Extract<PlanChange, { readonly _tag: "EffectClaimed" }>
  ): void {
    const id = nameOf(owner, key)
    const held = this.effects.get(id)
    const isFollowed = held?.task_id === follows && held.state !== "done"
    const isFree = held === undefined || held.state === "none" || held.expires_at <= at || isFollowed
    const { plan_id } = plan
    if (isFree) this.effects.set(id, { owner, tool, task_id, plan_id, at, state: "running", expires_at })
  }

  endEffect({ state, task_id }: Extract<PlanChange, { readonly _tag: "EffectEnded" }>): void {
    for (const claim of this.effects.values()) if (claim.task_id === task_id) claim.state = state
  }

  /** One of a call that has ended, and has not said what it has done, is `unknown`. */
  stateOf({ plan_id, state, task_id }: ClaimRecord): ClaimRecord["state"] {
    const isOpen = this.open.has(plan_id) && this.plans.get(plan_id)?.tasks.get(task_id)?.state === "running"
    return state === "running" && !isOpen ? "unknown" : state
  }

  claimOf(owner: CallerName, key: string): EffectClaim | undefined {
    const claim = this.effects.get(nameOf(owner, key))
    if (claim === undefined) return undefined
    const { at, plan_id, task_id } = claim
    const task = this.plans.get(plan_id)?.tasks.get(task_id)
    return {
      task_id,
      plan_id,
      at,
      state: this.stateOf(claim),
      result: task?.state === "completed" ? task.result : null,
      taskId: task?.remote_task_id ?? null,
      contextId: task?.remote_context_id ?? null
    }
  }

  takeKey({ idempotency, caller, plan_id }: NewPlan): void {
    if (idempotency !== null) this.keys.set(nameOf(caller, idempotency.key), { plan_id, ...idempotency })
  }

  charge(
    owner: CallerName,
    preset: PlanRecord["plan"]["preset"],
    { cost_usd, day, model, plans, tool_calls, usage }: Charge
  ): void {
    const ofOwner = this.charges.get(owner) ?? new Map<string, ChargeRecord>()
    this.charges.set(owner, ofOwner)
    const key = JSON.stringify([day, model, preset])
    const charged = ofOwner.get(key) ?? { owner, day, model, preset, ...uncharged }
    ofOwner.set(key, {
      ...charged,
      plans: charged.plans + plans,
      tool_calls: charged.tool_calls + tool_calls,
      usage: Usage.add(charged.usage, usage),
      cost_usd: charged.cost_usd + (cost_usd ?? 0),
      unpriced: charged.unpriced + (cost_usd === null ? 1 : 0)
    })
  }

  spentOn(owner: CallerName, day: string): Spent {
    const charges = Array.from(this.charges.get(owner)?.values() ?? [])
    const sum = (of: (charge: ChargeRecord) => number) => charges.reduce((sum, charge) => sum + of(charge), 0)
    const onDay = (of: (charge: ChargeRecord) => number) => sum((charge) => (charge.day === day ? of(charge) : 0))
    const isInMonth = (other: string) => other <= day && other.startsWith(day.slice(0, 8))
    return {
      tokens: onDay(({ usage }) => usage.input_tokens + usage.output_tokens),
      tool_calls: onDay(({ tool_calls }) => tool_calls),
      cost_usd: Number(onDay(({ cost_usd }) => cost_usd).toFixed(12)),
      month_cost_usd: Number(sum((charge) => (isInMonth(charge.day) ? charge.cost_usd : 0)).toFixed(12))
    }
  }

  holds({ plan, fence, replica }: PlanRecord, guard: Guard): boolean {
    if (!this.open.has(plan.plan_id)) return false
    if (guard._tag === "Queued") return plan.state === "queued" && replica === guard.replica && fence === guard.fence
    const session = this.sessions.get(plan.session_id)
    if (session?.fence !== guard.fence || plan.state === "waiting") return false
    // A queued plan may belong to another replica by now.
    return plan.state === "running" || session.lease?.replica === replica
  }

  /** Gives the session to the replica, until `expires`, and returns the fence. */
  lease(session: SessionRecord, replica: ReplicaId, expires: number): number {
    const fence = ++session.fence
    session.lease = { replica, fence, expires }
    return fence
  }

  hasLease({ lease }: SessionRecord, now: number): boolean {
    return lease !== undefined && lease.expires > now
  }

  /** Whether the plan's replica is dead or has handed the plan over or, of a running plan, nobody holds its session. */
  isLeft(record: PlanRecord, session: SessionRecord, asking: ReplicaId, now: number): boolean {
    if (record.plan.state === "waiting") return false
    if (record.plan.state === "running") return !this.hasLease(session, now)
    return record.replica !== asking && (record.isHandedOver || !this.isAlive(record.replica, now))
  }

  isAlive(replica: ReplicaId, now: number): boolean {
    return (this.replicas.get(replica) ?? 0) > now
  }
}

/** Wakes the plan if it is parked, and says whether it was: from now on any replica may take it over. */
export const wake = (record: PlanRecord, because: WokenBy): boolean => {
  if (record.plan.state !== "waiting") return false
  record.plan = { ...record.plan, state: "running", stage: "queue" }
  record.isHandedOver = true
  record.wokenBy = because
  return true
}

/** The session that a plan makes. */
export const makeSession = (memory: Memory, { caller, createdAt, new_session_id, request }: NewPlan): SessionRecord =>
  openSession(memory, {
    session_id: new_session_id,
    owner: caller,
    external_session_id: request.session_id ?? null,
    created_at: fromMillis(createdAt),
    ttlMs: request.session_ttl_ms ?? Infinity,
    metadata: {}
  })

export const openSession = (
  memory: Memory,
  made: Pick<SessionRecord, "session_id" | "owner" | "external_session_id" | "created_at" | "ttlMs" | "metadata">
): SessionRecord => ({
  ...made,
  ordinal: memory.nextOrdinal(),
  last_active_at: made.created_at,
  fence: 0,
  lease: undefined,
  agents: new Map(),
  messages: [],
  reverted: [],
  lastSeq: 0,
  summary: null,
  coveredSeq: 0,
  priors: [],
  coveredPriors: 0,
  files: new Set(),
  plans: new Set(),
  open: new Set(),
  readers: 0,
  bytes: 0,
  tasks: []
})

const decodeJson = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))

/** What is on a plan's row of what it has come to. */
export const gistOf = ({ gist }: PlanRecord): Schema.Json | null => (gist === null ? null : decodeJson(gist))

export const makePlan = (memory: Memory, plan: NewPlan, session: SessionRecord, now: number): PlanRecord => ({
  plan: {
    plan_id: plan.plan_id,
    session_id: session.session_id,
    external_session_id: session.external_session_id,
    state: "queued",
    stage: "queue",
    model: plan.model,
    caller: plan.caller,
    trace_id: traceIdOf(plan.route),
    preset: plan.request.preset ?? null,
    created_at: fromMillis(plan.createdAt),
    deadline_at: fromMillis(plan.deadline),
    finished_at: null,
    steps: 0,
    tool_calls: 0,
    retries: 0,
    usage: Usage.empty,
    cost_usd: plan.cost_usd,
    final: null,
    error: null,
    metadata: plan.request.metadata,
    question: plan.request.question
  },
  ordinal: memory.nextOrdinal(),
  owner: plan.caller,
  key_id: plan.request.asker?.key_id,
  replica: plan.replica,
  fence: 0,
  abort: undefined,
  request: plan.storedRequest,
  preferences: plan.request.preferences,
  echo: plan.echo,
  gist: PlanGist.encode(PlanGist.upTo(1)),
  firstTokenAt: null,
  route: plan.route,
  message: plan.request.task_message ?? null,
  cancelledAt: null,
  endsAt: now + plan.deadline - plan.createdAt,
  leftMs: null,
  needsReader: false,
  wokenBy: null,
  deaths: 0,
  isHandedOver: false,
  events: [],
  tasks: new Map(),
  inbox: [],
  inboxCount: 0,
  waits: new Map(),
  feedback: []
})
