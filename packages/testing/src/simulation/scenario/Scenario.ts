import type { GivenPreferences } from "@bowline/domain/plan/PlanRequest"
import type { DailyBudget } from "@bowline/runtime/config/PlansConfig"

/** A call of a tool. No other call of the scenario has its `key`, which stands in the arguments. `ms`: how long the tool works. */
export interface ScenarioCall {
  readonly key: string
  readonly tool: string
  readonly ms: number
  /** What it pays, if its tool is one that pays. */
  readonly order?: number
  /** The members of the order stand the other way round. */
  readonly isTurned?: true
}

/** What the model does in one step: so many words, with `pauseMs` in front of each, and then calls. */
export interface ScenarioStep {
  readonly words: number
  readonly pauseMs: number
  readonly calls: ReadonlyArray<ScenarioCall>
}

/** What a caller does about its plan, in milliseconds since it asked the question. A connection that breaks is no act: callers come back by themselves. */
export type CallerAct =
  | { readonly _tag: "Leave"; readonly at: number }
  | { readonly _tag: "ComeBack"; readonly at: number; readonly replica: number; readonly from: "start" | "last" }
  | { readonly _tag: "Cancel"; readonly at: number; readonly replica: number }
  /** Posts the same request with the same key, and reads to the end, or as long as it stays. */
  | { readonly _tag: "AskAgain"; readonly at: number; readonly replica: number; readonly staysMs?: number }
  /** Says one more thing to the plan, as `saidText` has it. */
  | {
      readonly _tag: "Say"
      readonly at: number
      readonly replica: number
      readonly number: number
      readonly when: "boundary" | "now"
      readonly else: "ask" | "reject"
    }
  /**
   * Gives a result or an answer to all calls that wait for one of the caller. A second one is another one. A payment that the caller makes itself is
   * refused by the bank, or is made and its result given to nobody: what it `becomes` it stays, however often the caller gives it.
   */
  | {
      readonly _tag: "Give"
      readonly at: number
      readonly replica: number
      readonly number: number
      readonly becomes?: "refused" | "lost"
    }
  /**
   * Decides about all calls that wait. A second decision may be the other one. About a call that may have been made already decides whoever looks at
   * the bank.
   */
  | { readonly _tag: "Decide"; readonly at: number; readonly replica: number; readonly approves: boolean }
  /** Sends a file of so many pieces, with `pauseMs` in front of each, and `lateMs` in front of the last one. Its connection is cut behind the piece `cutAfter`, if there is one. */
  | {
      readonly _tag: "Upload"
      readonly at: number
      readonly replica: number
      readonly number: number
      readonly pieces: number
      readonly pauseMs: number
      readonly lateMs?: number
      readonly cutAfter?: number
    }

/** What a plan may use up, as its request says it. */
export type Budget = Pick<GivenPreferences, "max_steps" | "max_tool_calls" | "max_total_tokens">

/** A file that a caller sends. */
export type UploadAct = Extract<CallerAct, { readonly _tag: "Upload" }>

/** How long a caller takes to send a file, in milliseconds. */
export const uploadMs = ({ cutAfter = Infinity, lateMs = 0, pauseMs, pieces }: UploadAct): number =>
  pauseMs * Math.min(pieces, cutAfter) + lateMs

/** A question, and what becomes of it where nothing happens to it. The last step calls nothing. */
export interface ScenarioPlan {
  readonly name: string
  readonly session: string
  readonly at: number
  readonly replica: number
  readonly onDisconnect: "cancel" | "continue"
  readonly onBusy: "queue" | "reject" | "interrupt"
  readonly hasKey: boolean
  readonly timeoutMs: number
  /** Whether every call waits for a decision, or none. */
  readonly approval?: "always" | "never"
  readonly budget?: Budget
  /** How long a call may take, in milliseconds. */
  readonly toolTimeoutMs?: number
  /** How long each wait for somebody may take, in milliseconds. */
  readonly waitMs?: number
  /** Its caller answers what its peers ask. */
  readonly answers?: true
  /** The answer has to be JSON, and the model gives it at once, when it is asked again, or never. */
  readonly json?: "at once" | "repaired" | "never"
  /** The plan cannot do without its MCP servers. */
  readonly needsServers?: boolean
  /** No model is asked: the plan makes this call alone, of a peer. Callers over HTTP have no such request. */
  readonly only?: ScenarioCall
  /** As `provider/model`. */
  readonly model?: string
  /** How long the caller takes for each frame. */
  readonly readMs: number
  /** How many characters of no meaning the question has, so that a session has to be compacted. */
  readonly ballast: number
  readonly steps: ReadonlyArray<ScenarioStep>
  /** What the caller asks, if an app says so; its script answers, and not the steps. */
  readonly question?: string
  readonly acts: ReadonlyArray<CallerAct>
}

/** A plan to which nothing happens: the first of its session, answered at once. */
export const plainPlan: ScenarioPlan = {
  name: "p0",
  session: "s0",
  at: 0,
  replica: 0,
  onDisconnect: "continue",
  onBusy: "queue",
  hasKey: true,
  timeoutMs: 120_000,
  readMs: 0,
  ballast: 0,
  steps: [{ words: 1, pauseMs: 1, calls: [] }],
  acts: []
}

/** What a provider does instead of its answer, or in the middle of it: after so many words of it. */
export type ProviderFault =
  | { readonly _tag: "Refuse"; readonly status: number; readonly code?: string; readonly retryAfterS?: number }
  | { readonly _tag: "ErrorChunk"; readonly words: number; readonly type: string }
  /** The connection ends after so many bytes of the body. */
  | { readonly _tag: "Cut" | "Reset"; readonly bytes: number }
  | { readonly _tag: "Stall"; readonly words: number; readonly ms: number }
  | { readonly _tag: "SlowBytes"; readonly ms: number }
  /** `Disorder`: a piece of a call comes before the call begins. */
  /** `EarlyUsage`: it says what it uses before it says a word. */
  | { readonly _tag: "EarlyUsage" }
  | { readonly _tag: "NoFinish" | "Twice" | "Corrupt" | "Disorder" | "Length" }

/** What a peer does with a call: instead of its answer, or after it. */
export type PeerFault =
  | { readonly _tag: "Silent" | "Vanish" | "Stuck" | "IgnoreCancel" | "Fail" }
  | { readonly _tag: "Late"; readonly ms: number }
  | { readonly _tag: "State"; readonly state: string }
  /** Asks its caller something, so many times, and goes on with each answer. */
  | { readonly _tag: "Asks"; readonly rounds: number }
  | { readonly _tag: "Refuse"; readonly status: number }
  | { readonly _tag: "Break"; readonly kind: "cut" | "reset" }
  /** The stream of its task breaks, and so many polls and subscriptions of it fail: they break, or are refused. */
  | { readonly _tag: "Polls"; readonly kind: "cut" | "reset" | "refuse"; readonly times: number }

/** What an MCP server does with a call: instead of its answer, or after it. */
export type McpFault =
  | { readonly _tag: "Silent" | "IgnoreCancel" | "Fail" | "Garbled" }
  | { readonly _tag: "Late"; readonly ms: number }
  | { readonly _tag: "Refuse"; readonly status: number }
  | { readonly _tag: "Break"; readonly kind: "cut" | "reset" }

/** The card of the peer `auto` for a while: in the other dialect, not there, no card at all, or late. */
export type CardFault = "other dialect" | "missing" | "garbled" | "late"

/** The MCP server for a while: it knows no session from before, lists other tools, or answers nothing. */
export type McpServerFault = "forgets" | "changes its tools" | "silent"

/** What goes wrong, and when, in milliseconds since the run began. A replica is named by its number, from 0. */
export type Fault =
  /** At that time the replica may run so many more tasks, then it is killed. It is started again if `backMs` is given. */
  | {
      readonly _tag: "Kill"
      readonly at: number
      readonly replica: number
      readonly tasks: number
      readonly backMs: number | undefined
    }
  | { readonly _tag: "Drain"; readonly at: number; readonly replica: number; readonly backMs: number | undefined }
  | { readonly _tag: "Pause"; readonly at: number; readonly replica: number; readonly ms: number }
  /** The wall clock of the replica jumps; its timers do not notice. */
  | { readonly _tag: "ClockStep"; readonly at: number; readonly replica: number; readonly byMs: number }
  | {
      readonly _tag: "StoreSlow"
      readonly at: number
      readonly replica: number
      readonly ms: number
      readonly delayMs: number
    }
  /** The next answer of the store to this replica is lost: the statement was done, or it was not. */
  | { readonly _tag: "AnswerLost"; readonly at: number; readonly replica: number; readonly isApplied: boolean }
  | { readonly _tag: "StoreAway"; readonly at: number; readonly ms: number }
  /** The replica does not reach the store, and hears no notices. */
  | { readonly _tag: "Partition"; readonly at: number; readonly replica: number; readonly ms: number }
  | {
      readonly _tag: "Notices"
      readonly at: number
      readonly replica: number
      readonly ms: number
      readonly become: "lost" | "late" | "twice"
    }
  | { readonly _tag: "NetworkSlow"; readonly at: number; readonly ms: number; readonly delayMs: number }
  /** Every connection of the replica to providers and peers is reset, or goes on without another byte. Those of callers are reset, too, if they have any. */
  | { readonly _tag: "NetworkReset" | "HalfOpen"; readonly at: number; readonly replica: number }
  /** At the request of this plan with this number, from 0. */
  | { readonly _tag: "Provider"; readonly plan: string; readonly request: number; readonly does: ProviderFault }
  /** For a while the provider takes the credential for none of its own. */
  | { readonly _tag: "Expire"; readonly at: number; readonly ms: number; readonly credential: string }
  /** For a while the provider takes no request. */
  | {
      readonly _tag: "Storm"
      readonly at: number
      readonly ms: number
      readonly provider: string
      readonly retryAfterS: number | undefined
    }
  | { readonly _tag: "Peer"; readonly key: string; readonly does: PeerFault }
  | { readonly _tag: "Card"; readonly at: number; readonly ms: number; readonly becomes: CardFault }
  | { readonly _tag: "Mcp"; readonly key: string; readonly does: McpFault }
  | { readonly _tag: "McpServer"; readonly at: number; readonly ms: number; readonly does: McpServerFault }

/** Something that is wrong for a while with what surrounds the gateway. */
export type StandingFault = Extract<Fault, { readonly _tag: "Expire" | "Storm" | "Card" | "McpServer" }>

/** All that happens to a world: drawn from a seed, as data that can be cut down and printed. `seed` draws only what is not here, such as latencies and the order of tasks. */
export interface Scenario {
  readonly seed: number
  readonly replicas: number
  readonly plans: ReadonlyArray<ScenarioPlan>
  readonly faults: ReadonlyArray<Fault>
  /** How long a plan only waits before it is parked, in milliseconds; without it none is. */
  readonly parkAfterMs?: number
  /** What all plans together may use up on a day. Nothing limits the questions that are asked when all is over. */
  readonly day?: DailyBudget
}

/** Whether a plan pays something. */
export const pays = ({ plans }: Scenario): boolean =>
  plans.some(({ steps }) => steps.some(({ calls }) => calls.some(({ order }) => order !== undefined)))
