import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { FileId } from "@bowline/domain/unstable/file/StoredFile"
import type { SeededRandom } from "../scenario/SeededRandom.ts"
import type { Loop } from "../process/Loop.ts"
import type {
  Moment,
  Observed,
  ObservedAnswer,
  ObservedAttempt,
  ObservedCall,
  ObservedCommit,
  ObservedDay,
  ObservedDecision,
  ObservedFault,
  ObservedGiven,
  ObservedPaid,
  ObservedReader,
  ObservedReplica,
  ObservedRequest,
  ObservedReset,
  ObservedSaid,
  ObservedTakeOver,
  ObservedUpload,
  ObservedWindow,
  Span
} from "../scenario/Observed.ts"
import { Process } from "../process/Process.ts"
import type { StandingFault } from "../scenario/Scenario.ts"

/** One line of the story of a run. `at` is in milliseconds of virtual time since the run began. */
export interface TraceLine {
  readonly at: number
  /** Who it happened to: a replica such as `a.1`, or `world`. */
  readonly where: string
  /** The name of a plan; empty where it is about none. */
  readonly plan: string
  readonly what: string
}

/** An observation while it is being made. */
export type Open<A> = {
  -readonly [Key in keyof A]: A[Key] extends ReadonlyArray<infer Item> ? Array<Item> : A[Key]
}

type OpenSpan = Open<Span>

/** What surrounds the gateway: providers, peers, callers, the store and the network run in its process. It notes what they see. */
export class World {
  readonly loop: Loop
  readonly process: Process
  readonly random: SeededRandom
  readonly trace: Array<TraceLine> = []
  /** Uses of real timers, clocks and the like, and bugs of the simulation itself. */
  readonly misuse: Array<string> = []
  readonly replicas: Array<Open<ObservedReplica>> = []
  readonly readers: Array<Open<ObservedReader>> = []
  readonly commits: Array<ObservedCommit> = []
  readonly takeOvers: Array<Open<ObservedTakeOver>> = []
  readonly requests: Array<Open<ObservedRequest>> = []
  readonly calls: Array<Open<ObservedCall>> = []
  readonly paid: Array<ObservedPaid> = []
  /** When somebody has looked last at the bank whether this was done: orders of moments. */
  readonly lookUps = new Map<string, number>()
  readonly decisions: Array<ObservedDecision> = []
  readonly said: Array<Open<ObservedSaid>> = []
  readonly given: Array<Open<ObservedGiven>> = []
  readonly answers: Array<ObservedAnswer> = []
  readonly uploads: Array<Open<ObservedUpload>> = []
  /** Uploads that have begun in the store, whose, and at which replica. */
  readonly begun = new Map<FileId, { readonly owner: CallerName; readonly replica: string }>()
  readonly faults: Array<Open<ObservedFault>> = []
  readonly attempts: Array<Open<ObservedAttempt>> = []
  readonly windows: Array<ObservedWindow> = []
  readonly resets: Array<ObservedReset> = []
  readonly storeAway: Array<OpenSpan> = []
  readonly lostAnswers: Array<Observed["lostAnswers"][number]> = []
  /** What is wrong at this instant with providers, cards and MCP servers. */
  readonly standing = new Set<StandingFault>()
  day: Open<ObservedDay> | undefined
  readonly probes: Array<string> = []

  constructor(loop: Loop, random: SeededRandom) {
    this.loop = loop
    this.random = random
    this.process = new Process("world", loop, random.of("world"), (line) => void this.misuse.push(line))
  }

  get now(): number {
    return this.loop.now
  }

  /** Whether no replica reaches the store, not even one that has just started. */
  get isStoreAway(): boolean {
    return this.storeAway.some(({ to }) => to === Infinity)
  }

  moment(): Moment {
    return this.loop.moment()
  }

  tell(where: string, plan: string, what: string): void {
    this.trace.push({ at: this.loop.now, where, plan, what })
  }

  /** Notes a span that lasts from now on; what is returned ends it. */
  span(spans: Array<OpenSpan>, wayMs?: number): () => void {
    const span: OpenSpan = { from: this.now, to: Infinity, wayMs }
    spans.push(span)
    return () => void (span.to = this.now)
  }
}

/** The name of the plan that a text names last: each question has it as `FACT-<name>`, and questions without answers are sent together. */
export const planIn = (text: string): string => /^.*FACT-([\w.]+)/s.exec(text)?.[1] ?? ""

/** What a caller adds to its plan. */
export const saidText = (plan: string, number: number): string => `And SAID-${plan}.${number} as well`

/** What was added to plans, in order, as far as this text repeats it. */
export const saidIn = (text: string): ReadonlyArray<string> => text.match(/SAID-[\w.]*\w/g) ?? []

/** The name of the plan with this question. One that asks what another one could not take any more is named by the first of that. */
export const nameOfQuestion = (question: string): string =>
  planIn(question) || (saidIn(question)[0]?.replace("SAID-", "after.") ?? "")

const time = (at: number): string => `${Math.floor(at / 1_000)}.${String(Math.floor(at % 1_000)).padStart(3, "0")}`

/** A line as it is printed: seconds, who, which plan, what. */
export const print = ({ at, plan, what, where }: TraceLine): string =>
  `${time(at).padStart(9)} ${where.padEnd(6)} ${plan.padEnd(5)} ${what}`
