import type { Frame } from "../PlanView.ts"
import { isPlanFrame } from "../Reduce.ts"
import type { FrameHead, Json, PlanFrame } from "../Wire.ts"
import type { Dialect, FrameData, Segment, ShownFile } from "./Dialect.ts"

interface Running {
  readonly started: FrameData<"task.started">
  readonly artifacts: Array<Json>
  readonly files: Array<ShownFile>
  hasProgress: boolean
}

const outputOf = (artifacts: ReadonlyArray<Json>): Json => (artifacts.length > 1 ? artifacts : (artifacts[0] ?? null))

/** The part of a plan that one stream shows: without any of these it is the whole plan. */
export interface Leg {
  /** It begins behind the approval requests of these calls, which were decided about. */
  readonly decided?: Iterable<string> | undefined
  /** It begins where these calls, whose results were given, have waited for them. */
  readonly given?: Iterable<string> | undefined
  /** It begins where the plan accepts this entry: what the person has said to it. */
  readonly entry?: string | undefined
  /** It ends where the plan accepts this entry: another stream shows the rest. */
  readonly until?: string | undefined
  /** Where the file of a tool can be shown from, if it can. */
  readonly urlOf?: ((file_id: string) => string | undefined) | undefined
}

/**
 * Turns the frames of a plan into the events of a UI protocol. In front of its leg, behind the end, and behind a pause, it gives none. Where the plan has
 * completed before it could hear the entry of its leg, the frames of the plan that it has `movedTo` come next.
 */
export class UiFold<Event> {
  isOver = false
  /** The plan that answers the entry of the leg in place of the one that was read. */
  movedTo: string | undefined
  readonly #dialect: Dialect<Event>
  readonly #urlOf: (file_id: string) => string | undefined
  readonly #behind: Set<string>
  readonly #given: ReadonlySet<string>
  readonly #entry: string | undefined
  #until: string | undefined
  #hasBegun = false
  #model: string | null = null
  #step: number | undefined
  /** Those of the step that runs. */
  #segments: ReadonlyArray<Segment> = []
  /** Those of the step that runs which an earlier leg has shown. */
  #before: ReadonlyArray<Segment> = []
  #open: Segment | undefined
  readonly #shown = new Set<string>()
  readonly #running = new Map<string, Running>()
  readonly #waiting = new Map<string, FrameData<"approval.requested">>()
  readonly #asked = new Set<string>()
  /** Calls whose result the client gives. */
  readonly #awaited = new Set<string>()
  readonly #rejected = new Set<string>()
  /** Wants an account before it lists its tools, so the plan waits in front of its first step. It has no call yet: it is shown as one. */
  #server: (FrameHead & { readonly task_id: string; readonly tool: string }) | undefined

  constructor(dialect: Dialect<Event>, { decided = [], entry, given = [], until, urlOf = () => undefined }: Leg = {}) {
    this.#dialect = dialect
    this.#urlOf = urlOf
    this.#given = new Set(given)
    this.#entry = entry
    this.#until = until
    this.#behind = new Set([
      ...Array.from(decided, (call) => `approval.requested ${call}`),
      ...Array.from(this.#given, (call) => `waiting ${call}`),
      ...(entry === undefined ? [] : [`inbox.accepted ${entry}`])
    ])
  }

  /** The events for a frame. */
  next(frame: Frame): ReadonlyArray<Event> {
    if (this.isOver || !isPlanFrame(frame)) return []
    if (this.#behind.size === 0) return this.#read(frame)
    const step = this.#step
    const events = this.#read(frame)
    const { data, event } = frame
    if ("task_id" in data) this.#behind.delete(`${event} ${data.task_id}`)
    if ("entry_id" in data) this.#behind.delete(`${event} ${data.entry_id}`)
    if (this.#behind.size > 0 && !this.isOver) return []
    if (this.#entry !== undefined && !this.isOver) return this.#beginBehindEntry(data)
    const begun = this.#dialect.begin({ ...data, model: this.#model }, step)
    return this.isOver ? [...begun, ...events] : begun
  }

  /** The client shows what follows apart from what it has shown: what is open there begins anew. */
  #beginBehindEntry(head: FrameHead): ReadonlyArray<Event> {
    this.#open = undefined
    this.#before = this.#segments
    this.#segments = []
    this.#shown.clear()
    return [
      ...this.#begin(head),
      ...(this.#step === undefined ? [] : this.#dialect.startStep(this.#step)),
      ...Array.from(this.#waiting.values()).flatMap((call) => [...this.#show(call), ...this.#dialect.request(call)]),
      ...Array.from(this.#running.values()).flatMap(({ started }) =>
        this.#given.has(started.task_id) ? [] : this.#showStarted(started)
      )
    ]
  }

  /** Whether nothing goes on before somebody decides about a call, or gives its result, beside those that were decided just now. */
  waits(decided: ReadonlySet<string>): boolean {
    const isOpen = (call: string) => this.#awaited.has(call) && !this.#given.has(call)
    const running = Array.from(this.#running.keys())
    if (this.isOver || this.#behind.size > 0 || !running.every(isOpen)) return false
    return running.length > 0 || this.waitsForDecision(decided)
  }

  /** Whether a call waits for a decision, beside those that were decided just now. */
  waitsForDecision(decided: ReadonlySet<string>): boolean {
    return this.#undecided(decided).length > 0
  }

  /** Ends the stream while only a decision or a result is waited for. The plan goes on. */
  pause(decided: ReadonlySet<string>): ReadonlyArray<Event> {
    return this.#leave("waits", this.#undecided(decided))
  }

  /** The frames of the plan that it has `movedTo` come from now on, up to this entry. */
  follow(until?: string): void {
    this.movedTo = undefined
    this.#until = until
  }

  /** Ends the stream where the person says something: another one shows what the plan answers to that. */
  end(): ReadonlyArray<Event> {
    return this.#leave("said")
  }

  /** Ends the stream for a reason that is not the plan's own. */
  fail(code: string, message: string): ReadonlyArray<Event> {
    if (this.isOver) return []
    this.isOver = true
    return [...this.#close(), ...this.#dialect.fail({ code, message })]
  }

  #leave(why: "waits" | "said", waiting: ReadonlyArray<FrameData<"approval.requested">> = []): ReadonlyArray<Event> {
    this.isOver = true
    return [...this.#endStep(), ...this.#dialect.pause(waiting, why)]
  }

  #undecided(decided: ReadonlySet<string>) {
    return Array.from(this.#waiting.values()).filter(({ task_id }) => !decided.has(task_id))
  }

  #read(frame: PlanFrame): ReadonlyArray<Event> {
    switch (frame.event) {
      case "plan":
        this.#model = frame.data.model
        return this.#hasBegun ? this.#dialect.follow(frame.data) : this.#begin(frame.data)
      case "step": {
        const ended = [...this.#endStep(), ...this.#endServerWait("completed")]
        this.#step = frame.data.step
        return [...ended, ...this.#dialect.startStep(frame.data.step)]
      }
      case "text.delta":
      case "reasoning.delta":
        return this.#add(frame.event === "text.delta" ? "text" : "reasoning", frame.data)
      case "text.retract":
        return this.#retract(frame.data)
      case "task.started":
        return this.#start(frame.data)
      case "task.progress":
        return this.#progress(frame.data)
      case "task.artifact":
        return this.#showArtifact(frame.data)
      case "task.finished":
        return this.#finish(frame.data)
      case "approval.requested":
        this.#waiting.set(frame.data.task_id, frame.data)
        this.#asked.add(frame.data.task_id)
        return [...this.#show(frame.data), ...this.#dialect.request(frame.data)]
      case "approval.resolved":
        this.#waiting.delete(frame.data.task_id)
        if (frame.data.decision === "reject") this.#rejected.add(frame.data.task_id)
        return this.#dialect.resolve(frame.data)
      case "waiting":
        return this.#wait(frame.data)
      case "inbox.accepted":
        return frame.data.entry_id === this.#until ? this.#leave("said") : []
      case "final": {
        this.movedTo = frame.data.moved?.find(({ entry_id }) => entry_id === this.#entry)?.plan_id
        if (this.movedTo !== undefined) return this.#endStep()
        this.isOver = true
        return [...this.#endStep(), ...this.#dialect.complete(frame.data)]
      }
      case "error":
        return this.#fail(frame.data)
      default:
        return []
    }
  }

  #begin(head: FrameHead): ReadonlyArray<Event> {
    this.#hasBegun = true
    return this.#dialect.begin({ ...head, model: this.#model }, undefined)
  }

  #add(kind: Segment["kind"], { attempt, delta, step }: FrameData<"text.delta">): ReadonlyArray<Event> {
    const open = this.#open
    if (open !== undefined && open.kind === kind && open.attempt === attempt) {
      open.text += delta
      return this.#dialect.add(open, delta)
    }
    const earlier = [...this.#before, ...this.#segments]
    const part = earlier.filter((segment) => segment.kind === kind && segment.attempt === attempt).length
    const segment = { kind, step, attempt, part, text: delta }
    const closed = this.#close()
    this.#open = segment
    this.#segments = [...this.#segments, segment]
    return [...closed, ...this.#dialect.open(segment), ...this.#dialect.add(segment, delta)]
  }

  #close(): ReadonlyArray<Event> {
    const open = this.#open
    this.#open = undefined
    return open === undefined ? [] : this.#dialect.close(open)
  }

  #retract({ attempt, step }: FrameData<"text.retract">): ReadonlyArray<Event> {
    const isRemoved = (segment: Segment) => segment.step === step && segment.attempt === attempt
    const removed = [...this.#before, ...this.#segments].filter(isRemoved)
    if (removed.length === 0) return []
    const closed = this.#close()
    this.#before = this.#before.filter((segment) => !isRemoved(segment))
    this.#segments = this.#segments.filter((segment) => !isRemoved(segment))
    return [...closed, ...this.#dialect.retract(removed, this.#segments)]
  }

  #endStep(): ReadonlyArray<Event> {
    const step = this.#step
    const closed = this.#close()
    this.#step = undefined
    this.#before = []
    this.#segments = []
    return step === undefined ? closed : [...closed, ...this.#dialect.endStep(step)]
  }

  #show(call: FrameData<"task.started" | "approval.requested">, isOwn = false): ReadonlyArray<Event> {
    if (this.#shown.has(call.task_id)) return []
    this.#shown.add(call.task_id)
    const parent = this.#segments.findLast(({ kind }) => kind === "text")
    return [...this.#close(), ...this.#dialect.show(call, parent, isOwn)]
  }

  #start(started: FrameData<"task.started">): ReadonlyArray<Event> {
    this.#running.set(started.task_id, { started, artifacts: [], files: [], hasProgress: false })
    return this.#showStarted(started)
  }

  #showStarted(started: FrameData<"task.started">): ReadonlyArray<Event> {
    // One that is refused never gets to the client.
    if (started.kind === "client") return this.#awaited.has(started.task_id) ? this.#show(started, true) : []
    return [...this.#show(started), ...this.#dialect.start(started)]
  }

  #wait(wait: FrameData<"waiting">): ReadonlyArray<Event> {
    const { agent, kind, message = "", task_id, url, ...head } = wait
    // Nobody but the user can connect the account.
    const asked = { state: "auth-required", message: url === undefined ? message : `${message}: ${url}` }
    if (task_id === null) {
      const ended = this.#endServerWait("completed")
      this.#server = { ...head, task_id: `${head.plan_id}.${agent}`, tool: agent ?? "" }
      return [...ended, ...this.#dialect.progress({ ...this.#server, ...asked }, this.#server)]
    }
    const running = kind === "answer" ? undefined : this.#running.get(task_id)
    if (running === undefined) return []
    const { started } = running
    if (kind === "account") return this.#progress({ ...wait, ...asked, task_id })
    this.#awaited.add(started.task_id)
    return this.#asked.has(started.task_id) ? this.#dialect.hand(started) : this.#show(started, true)
  }

  /** The plan goes on, or ends, without a server that wanted an account, or with it. */
  #endServerWait(state: "completed" | "failed"): ReadonlyArray<Event> {
    const server = this.#server
    this.#server = undefined
    return server === undefined ? [] : this.#dialect.progress({ ...server, state }, server)
  }

  #progress(data: FrameData<"task.progress">): ReadonlyArray<Event> {
    const running = this.#running.get(data.task_id)
    if (running === undefined) return []
    running.hasProgress = true
    return this.#dialect.progress(data, running.started)
  }

  #showArtifact({
    content,
    file_id,
    media_type: mediaType,
    task_id
  }: FrameData<"task.artifact">): ReadonlyArray<Event> {
    const running = this.#running.get(task_id)
    running?.artifacts.push(content)
    const url = file_id && this.#urlOf(file_id)
    if (!url) return []
    running?.files.push({ url, mediaType })
    return this.#dialect.file === undefined ? [] : [...this.#close(), ...this.#dialect.file({ url, mediaType })]
  }

  #finish(data: FrameData<"task.finished">): ReadonlyArray<Event> {
    const running = this.#running.get(data.task_id)
    if (running === undefined) return []
    this.#running.delete(data.task_id)
    // The client has shown its own result.
    if (this.#given.has(data.task_id)) return []
    const { artifacts, files, hasProgress, started } = running
    const isRejected = this.#rejected.has(data.task_id)
    const isOwn = this.#awaited.has(data.task_id) && !this.#asked.has(data.task_id)
    const output = outputOf(artifacts)
    const shown = this.#show(started)
    return [...shown, ...this.#dialect.finish({ data, started, output, files, isRejected, isOwn, hasProgress })]
  }

  #fail(data: FrameData<"error">): ReadonlyArray<Event> {
    this.isOver = true
    const begun = this.#hasBegun ? [] : this.#begin(data)
    const settled = Array.from(this.#waiting.values()).flatMap((call) => this.#dialect.settle(call))
    return [...begun, ...settled, ...this.#endStep(), ...this.#endServerWait("failed"), ...this.#dialect.fail(data)]
  }
}
