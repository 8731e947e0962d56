import { Entry } from "@bowline/domain/plan/Inbox"
import { Message } from "@bowline/domain/session/Message"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { Clock, Effect, Fiber, Schedule, Schema } from "effect"
import { callsAreOnce, historyIsLegal, type ObservedPlan, planProblems } from "./Checker.ts"
import { type Follower, follow, nobody, planId } from "./Follower.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { get } from "./GatewayProcess.ts"
import { clientTools, draw, durationOf, type ScriptedPlan, servePeers, turnOf } from "./KillScript.ts"
import { type Note, notesAreOnce } from "./KillNotes.ts"
import { join } from "node:path"
import * as Processes from "./Processes.ts"
import { sums } from "./SpentFrames.ts"

const PlanList = Schema.Struct({
  plans: Schema.Array(
    Schema.Struct({
      plan_id: Schema.String,
      state: Schema.String,
      finished_at: Schema.NullOr(Schema.String),
      error: Schema.NullOr(Schema.Struct({ code: Schema.String })),
      metadata: Schema.Record(Schema.String, Schema.String)
    })
  )
})
type ListedPlan = (typeof PlanList.Type)["plans"][number]
const decodePlans = Schema.decodeUnknownEffect(PlanList)
const Waits = Schema.Struct({
  waiting: Schema.Array(
    Schema.Struct({
      plan_id: Schema.String,
      task_id: Schema.String,
      kind: Schema.String,
      input: Schema.Record(Schema.String, Schema.Json)
    })
  )
})
const decodeWaiting = Schema.decodeUnknownEffect(Waits)
const decodeEntries = Schema.decodeUnknownEffect(Schema.Struct({ entries: Schema.Array(Entry) }))
const decodeMessages = Schema.decodeUnknownEffect(Schema.Struct({ messages: Schema.Array(Message) }))

/** A plan that is asked for, who asks, and who reads along. */
interface AskedPlan {
  readonly script: ScriptedPlan
  readonly caller: Follower
  readonly watcher: Follower
  readonly notes: Array<Note>
}

const isOver = ({ state }: ListedPlan) => state !== "queued" && state !== "running" && state !== "waiting"

/**
 * Gateways that are killed while they run plans, `least` to `most` in a round, with a provider and peers that outlive them. `left` gives the
 * rows of the database that are not over. `recoveryMs` is what they take at most to settle or resume what a process left, on top of the lease, which is a tenth of it.
 */
export const make = Effect.fnUntraced(function* (
  seed: string,
  size: number,
  settings: Readonly<Record<string, string>>,
  left: Effect.Effect<ReadonlyArray<string>>,
  { least, most, recoveryMs }: { readonly least: number; readonly most: number; readonly recoveryMs: number }
) {
  const leaseMs = recoveryMs / 10
  const scripts = new Map<string, ScriptedPlan>()
  const provider = yield* Effect.flatMap(
    ChatHost.make((asked) => turnOf(scripts, asked)),
    (host) => Effect.flatMap(Network, (network) => network.serve(host))
  )
  const peers = yield* servePeers
  const models = { "openai/scripted": { price: { input: 1.1, cached: 0.13, output: 7.7 } } }
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ models }) })
  const processes = yield* Processes.make(size, {
    ...settings,
    BOWLINE_CONFIG: join(folder, "gateway.json"),
    OPENAI_BASE_URL: `${provider.url}/v1`,
    BOWLINE_MODEL: "openai/scripted",
    BOWLINE_LEASE_TTL: `${leaseMs}ms`
  })
  const { living } = processes
  const tally = { kills: 0, plans: 0, entries: 0, completed: 0, interrupted: 0, neverHeard: 0, breaks: 0, slowestMs: 0 }

  /** What a gateway answers that has the time for it. */
  const getFrom = (path: string, body?: object) =>
    Effect.repeat(
      Effect.flatMap(living, (url) => get(url, path, body)),
      {
        until: ({ code, retryable }) => code === undefined || retryable !== true,
        schedule: Schedule.spaced("200 millis")
      }
    )

  /** Says something, as often as it takes to be heard. */
  const tell = (plan: string, entry: object, key?: string) =>
    Effect.flatMap(living, (url) =>
      Effect.tryPromise(async () => {
        const headers = { "content-type": "application/json", ...(key !== undefined && { "idempotency-key": key }) }
        const init = { method: "POST", headers, body: JSON.stringify(entry), signal: AbortSignal.timeout(5_000) }
        const { status } = await fetch(`${url}/plans/${plan}/inbox`, init)
        return status
      })
    ).pipe(
      Effect.orElseSucceed(() => 0),
      Effect.repeat({ until: (status) => status !== 0 && status < 500, schedule: Schedule.spaced("50 millis") })
    )

  /** Answers whatever waits for somebody. */
  const person = Effect.gen(function* () {
    const { waiting } = yield* Effect.flatMap(getFrom("/waiting?limit=200"), decodeWaiting)
    yield* Effect.forEach(waiting, ({ input, kind, plan_id, task_id }) =>
      tell(
        plan_id,
        kind === "approval"
          ? { type: "decision", task_id, decision: "approve" }
          : { type: "result", task_id, content: `did ${/[\d.]+/.exec(JSON.stringify(input))?.[0]}` }
      )
    )
  }).pipe(
    // The gateway that it asks may die.
    Effect.ignoreCause,
    Effect.repeat(Schedule.spaced("100 millis"))
  )

  const annotate = (plan: string, { script, notes }: AskedPlan) =>
    Effect.forEach(
      script.notesMs,
      Effect.fnUntraced(function* (ms, index) {
        yield* Effect.sleep(ms)
        const note: Note = { text: `note ${script.name}.${index}`, status: 0 }
        notes.push(note)
        note.status = yield* tell(plan, { type: "text", text: note.text, else: "reject" }, note.text)
      }),
      { concurrency: "unbounded", discard: true }
    )

  const ask = Effect.fnUntraced(function* (asked: AskedPlan) {
    const { caller, script, watcher } = asked
    const { hasKey, isWatched, name, onDisconnect, session } = script
    yield* Effect.sleep(script.delayMs)
    const body = {
      question: `plan ${name}?`,
      session_id: session,
      agents: peers.agents,
      tools: clientTools,
      metadata: { name },
      preferences: { on_disconnect: onDisconnect }
    }
    const key = hasKey ? { "idempotency-key": name } : undefined
    const headers = { "content-type": "application/json", ...key }
    const init = { method: "POST", headers, body: JSON.stringify(body) }
    const url = processes.urlOf(script.process) ?? (yield* living)
    const calling = yield* Effect.forkChild(follow(caller, living, { url, path: "/plan", init, repeats: hasKey }))
    const known = Effect.sync(() => planId(caller)).pipe(
      Effect.repeat({ until: (id) => id !== undefined, schedule: Schedule.spaced("10 millis") })
    )
    const id = yield* Effect.raceFirst(known, Effect.as(Fiber.await(calling), undefined))
    const noting = id === undefined ? undefined : yield* Effect.forkChild(annotate(id, asked))
    if (id !== undefined && isWatched) {
      yield* follow(watcher, living, { path: `/plans/${id}/events`, init: {}, repeats: true })
    }
    yield* Fiber.join(calling)
    if (noting !== undefined) yield* Fiber.join(noting)
  })

  const plansOf = (session: string) =>
    Effect.flatMap(getFrom(`/plans?session_id=${session}&limit=200`), (answer) =>
      // None of its plans has been heard of.
      answer["code"] === "not_found" ? Effect.succeed({ plans: [] }) : decodePlans(answer)
    )

  const observe = Effect.fnUntraced(function* (asked: AskedPlan, listed: ListedPlan, hasDied: boolean) {
    const { plan_id, error, state } = listed
    const reader = nobody()
    yield* follow(reader, living, { path: `/plans/${plan_id}/events`, init: {}, repeats: true }).pipe(
      Effect.timeoutOption(recoveryMs)
    )
    const seen = [asked.caller.frames, asked.watcher.frames]
    const says = asked.script.steps.map(({ words }) => words.join(""))
    const lines = processes.linesOf(plan_id)
    // One that is too slow for its lease is as good as dead.
    const died = hasDied || lines.some((line) => line.includes("lease_lost"))
    const plan: ObservedPlan = {
      plan_id,
      state,
      says,
      seen,
      name: asked.script.name,
      error: error?.code ?? null,
      hasDied: died,
      resumptions: lines.filter((line) => line.includes("plan_resumed")).length,
      replay: reader.frames
    }
    const { entries } = yield* Effect.flatMap(getFrom(`/plans/${plan_id}/inbox?limit=200`), decodeEntries)
    const { messages } = yield* decodeMessages(yield* getFrom(`/sessions/${asked.script.session}/messages?limit=200`))
    const problems = [
      ...planProblems(plan, yield* peers.arrivals),
      ...notesAreOnce(asked.notes, entries, messages, reader.frames.at(-2)?.data ?? "")
    ]
    tally.entries += entries.length
    return problems.length === 0 ? [] : [...problems, ...lines]
  })

  /** What is wrong with a session, once its plans are over, or should be. */
  const inspect = Effect.fnUntraced(function* (
    session: string,
    asked: ReadonlyArray<AskedPlan>,
    killed: ReadonlySet<number>,
    endsBy: number
  ) {
    const problems: Array<string> = []
    const late = Effect.map(Clock.currentTimeMillis, (now) => now > endsBy)
    const { plans } = yield* plansOf(session).pipe(
      Effect.flatMap((list) => Effect.map(late, (isLate) => ({ plans: list.plans, isLate }))),
      Effect.repeat({
        until: ({ isLate, plans }) => isLate || plans.every(isOver),
        schedule: Schedule.spaced("50 millis")
      })
    )
    for (const { state, plan_id } of plans.filter((plan) => !isOver(plan))) {
      problems.push(`plan ${plan_id} is ${state} still`)
    }
    const aliveSince = yield* processes.aliveSince
    for (const one of asked) {
      const { caller, script, watcher } = one
      const mine = plans.filter(({ metadata }) => metadata["name"] === script.name)
      const ids = mine.map(({ plan_id }) => plan_id)
      const id = planId(caller)
      if (mine.length > 1) problems.push(`plan ${script.name} was started as ${ids.join(" and ")}`)
      if (id !== undefined && !ids.includes(id)) problems.push(`plan ${script.name} was ${id}, and is gone`)
      for (const { frames, refusals } of [caller, watcher]) {
        problems.push(...refusals.map((refusal) => `a reader of ${script.name} got ${refusal}`))
        if (frames.length > 0 && frames.at(-1)?.event !== "done") problems.push(`a reader of ${script.name} saw no end`)
      }
      for (const listed of mine) {
        if (!isOver(listed)) continue
        problems.push(...(yield* observe(one, listed, killed.has(script.process))))
        tally.plans++
        if (listed.state === "completed") tally.completed++
        else tally.interrupted++
        const finishedAt = Date.parse(listed.finished_at ?? "")
        if (!(finishedAt <= endsBy)) problems.push(`plan ${listed.plan_id} was over ${finishedAt - endsBy} ms too late`)
        tally.slowestMs = Math.max(tally.slowestMs, finishedAt - aliveSince)
      }
      if (id === undefined) tally.neverHeard++
      tally.breaks += caller.breaks + watcher.breaks
    }
    if (plans.length > 0) {
      const { messages } = yield* decodeMessages(yield* getFrom(`/sessions/${session}/messages?limit=200`))
      problems.push(...historyIsLegal(messages).map((problem) => `${session}: ${problem}`))
    }
    const next = yield* getFrom("/plan", { question: "And now?", session_id: session }).pipe(
      Effect.timeoutOption(recoveryMs)
    )
    const state = next._tag === "Some" ? String(next.value["state"] ?? next.value["code"]) : "not over"
    if (state !== "completed") problems.push(`the next plan of ${session} is ${state}`)
    return problems
  })

  /** All that was wrong in a round, each with what is needed to play it again. */
  const play = Effect.fnUntraced(function* (index: number) {
    const { kills, plans } = yield* draw(seed, index, size, least, most)
    const asked = plans.map((script): AskedPlan => ({ script, caller: nobody(), watcher: nobody(), notes: [] }))
    for (const script of plans) scripts.set(script.name, script)
    const answering = yield* Effect.forkChild(person)
    const asking = yield* Effect.forkChild(Effect.forEach(asked, ask, { concurrency: "unbounded" }))
    yield* Effect.forEach(kills, (kill) => Effect.delay(processes.killAndRestart(kill.process), kill.afterMs), {
      concurrency: size
    })
    tally.kills += kills.length
    const killed = new Set(kills.map(({ process }) => process))
    const aliveSince = yield* processes.aliveSince
    // Settled or gone on with by then; the plans of a session come one behind the other.
    const endOf = (scripts: ReadonlyArray<ScriptedPlan>) =>
      scripts.reduce((end, script) => end + durationOf(script), aliveSince + leaseMs + recoveryMs)
    yield* Effect.timeoutOption(Fiber.join(asking), endOf(plans) - (yield* Clock.currentTimeMillis))
    yield* Fiber.interrupt(asking)
    yield* Fiber.interrupt(answering)
    const sessions = new Set(plans.map(({ session }) => session))
    const inSessions = yield* Effect.forEach(
      sessions,
      (session) => {
        const inSession = asked.filter(({ script }) => script.session === session)
        return inspect(session, inSession, killed, endOf(inSession.map(({ script }) => script)))
      },
      { concurrency: "unbounded" }
    )
    const arrivals = (yield* peers.arrivals).filter(({ key }) => key.startsWith(`${index}.`))
    const problems = [...inSessions.flat(), ...callsAreOnce(arrivals), ...(yield* left)]
    return problems.map((problem) => `seed ${seed}, round ${index}: ${problem}`)
  })

  /** What is charged for all plans of all rounds is what they have told, whoever died meanwhile. */
  const spending = Effect.gen(function* () {
    const { charged, told } = yield* Effect.flatMap(living, sums)
    const [text, ...others] = [told, ...charged].map((sum) => JSON.stringify(sum))
    const wrong = others.filter((other) => other !== text)
    return {
      told,
      problems: wrong.map((other) => `seed ${seed}: the frames add up to ${text}, and the usage to ${other}`)
    }
  })

  return { play, spending, tally, refused: peers.refused }
})
