import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest, Sampling } from "@bowline/domain/plan/PlanRequest"
import type { Message, NewMessage } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect, type Scope } from "effect"
import type { ModelRequest } from "../asking/AnswerAttempt.ts"
import type { Asker } from "../asking/Asker.ts"
import type { Compaction } from "../compaction/Compaction.ts"
import { contextBlocks } from "../compaction/Summary.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import { type Entry, legalHistory } from "../provider/LegalHistory.ts"
import { allowsTool, type Permission, type Permissions } from "../config/Permissions.ts"
import { permissionOf } from "../config/Presets.ts"
import type { McpClient } from "../remote/McpClient.ts"
import type { PeerClient } from "../remote/PeerClient.ts"
import type { RecipeTable } from "../prompt/Recipes.ts"
import type { Environment } from "../record/Environment.ts"
import * as BeginRecord from "../record/BeginRecord.ts"
import { idsOf, idsTold } from "../store/FileStore.ts"
import type { InboxStore } from "../store/InboxStore.ts"
import { type PlanStore, questionId } from "../store/PlanStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { SessionStore, SessionSummary } from "../store/SessionStore.ts"
import type { InputValidator } from "../tool/InputValidator.ts"
import type { CheckOutput } from "../tool/McpTools.ts"
import type { Tool } from "../tool/Tool.ts"
import { spellingsOf } from "../tool/ToolName.ts"
import * as ApprovalRule from "./ApprovalRule.ts"
import * as Catalog from "./Catalog.ts"
import type * as McpServers from "./McpServers.ts"
import { PlanLoop } from "./PlanLoop.ts"
import { PlanPrompt } from "./PlanPrompt.ts"
import type { PlannerError } from "./PlannerError.ts"
import type * as PlanFiles from "./PlanFiles.ts"
import type { PlanRun } from "./PlanRun.ts"
import { RecordedTools } from "./RecordedTools.ts"
import { systemPrompt } from "./SystemPrompt.ts"

/** What the planner works with. */
export interface Parts {
  readonly asker: Asker["Service"]
  readonly inboxes: InboxStore["Service"]
  readonly sessions: SessionStore["Service"]
  readonly peers: PeerClient["Service"]
  readonly mcp: McpClient["Service"]
  readonly validator: InputValidator["Service"]
  readonly local: ReadonlyArray<Tool>
  /** The operator's texts. A plan keeps what they are when it begins. */
  readonly planner: Effect.Effect<string>
  readonly recipes: Effect.Effect<RecipeTable>
  readonly config: PlansConfig["Service"]
  readonly permissions: typeof Permissions.Service
  readonly compaction: Compaction["Service"]
  readonly environment: Environment
  readonly filesOf: Effect.Success<typeof PlanFiles.make>
  readonly store: PlanStore["Service"]
  readonly lookAgain: Catalog.Given["lookAgain"]
}

/** A plan whose session is held, ready for its next step. */
export interface Conversation {
  /** They change in `refreshTools`, and never else. */
  readonly tools: ReadonlyMap<string, Tool>
  /** Takes in what MCP servers have changed of their tools: between two steps. */
  readonly refreshTools: Effect.Effect<void, StorageError | PlannerError>
  /** Declares the tools that this text of the user names. */
  readonly readNames: (text: string) => void
  /** What the caller may not use, see `Catalog`. */
  readonly withheld: ReadonlyMap<string, Tool>
  readonly prompt: PlanPrompt
  readonly files: PlanFiles.PlanFiles
  /** Marks what comes from outside, for the model: random, so that nothing from outside can end the mark. */
  readonly delimiter: string
  /** The answer of the plan's last step, if another process has stored one. */
  readonly lastAnswer: Message | undefined
  readonly loop: PlanLoop
  /** What the model is asked next. `corrections` are for this request only. */
  readonly request: (mustAnswer: boolean, corrections: ReadonlyArray<Entry>) => ModelRequest
}

/** The question as the history has it. */
const questionOf = (plan: PlanId, { question, question_parts }: PlanRequest): NewMessage => ({
  message_id: questionId(plan),
  role: "user",
  parts: question_parts ?? [{ type: "text", text: question }]
})

/** Begins with the first model that can be asked now, if there is one, so that `plan.model` names it. */
const skipUnavailable = Effect.fnUntraced(function* (asker: Asker["Service"], run: PlanRun) {
  if (run.models.length < 2) return
  const target = yield* asker
    .first(run.subject("provider"), run.models)
    .pipe(Effect.catchTag("ProviderError", () => Effect.undefined))
  if (target !== undefined) run.use(target.model)
})

/** The stored messages with the question. A compaction may have covered the question of a resumed plan: it asks again in front. */
const withQuestion = (stored: ReadonlyArray<Message>, question: NewMessage, isAsked: boolean): ReadonlyArray<Entry> => {
  if (stored.some(({ message_id }) => message_id === question.message_id)) return stored
  return isAsked ? [question, ...stored] : [...stored, question]
}

/** What the operator's settings say of the tools; undefined where they say nothing. */
const rulesOf = (
  { tools, withheld }: Catalog.Catalog,
  { approvals, effectOf }: Parts["config"],
  permission: Permission,
  known: RecipeTable
): BeginRecord.OperatorRules | undefined => {
  const all = [...tools.values(), ...withheld.values()]
  const named = (is: (name: string) => boolean) =>
    all.filter((tool) => spellingsOf(tool).some(is)).map(({ name }) => name)
  const effects = all.flatMap(({ name, ...tool }) => {
    const said = spellingsOf({ name, ...tool }).map(effectOf)
    const effect = said.find((effect) => effect !== undefined)
    return effect === undefined ? [] : [[name, effect] as const]
  })
  const lists = {
    withheld: all.filter((tool) => !allowsTool(permission, tool)).map(({ name }) => name),
    recipes: Array.from(known.keys()).filter((name) => !permission.recipe(name)),
    always: named(approvals.isAlways),
    sensitive: named(approvals.isSensitive)
  }
  const isEmpty = effects.length === 0 && Object.values(lists).every(({ length }) => length === 0)
  return isEmpty ? undefined : { ...lists, effects: Object.fromEntries(effects) }
}

/** What the plan may use, out of all that there is as it begins. */
const gather = Effect.fnUntraced(function* (
  { config, inboxes, local, lookAgain, mcp, peers, permissions, sessions, store, validator }: Parts,
  run: PlanRun,
  recipes: RecipeTable,
  heard: Map<string, object>,
  files: PlanFiles.PlanFiles
) {
  const { caller, request } = run.given
  const permissionNow = () => permissionOf(permissions, run.given)
  const checkOutput: CheckOutput = (tool, schema, output) => validator.outputProblem(caller, tool, schema, output)
  const { fork } = request
  const recorded = fork?.tools === "recorded" ? yield* RecordedTools.read(store, caller, fork) : undefined
  const isUnattended: McpServers.Given["isUnattended"] = (tool) =>
    ApprovalRule.isUnattended(tool, request.preferences.approval, config.approvals)
  const catalog = yield* Catalog.of(run, {
    permission: permissionNow(),
    peers:
      recorded === undefined
        ? peers
        : { ...peers, discover: (agent) => recorded.discover(agent, peers.discover(agent)) },
    recorded,
    mcp: {
      client: mcp,
      check: checkOutput,
      isUnattended,
      heardServer: ({ terms }, told) => heard.set(`server ${terms.name}`, told)
    },
    heardCard: ({ name }, told) => heard.set(`card ${name}`, told),
    heardClient: (tools) => heard.set("client", { tools }),
    local,
    sessions,
    inboxes,
    lookAgain,
    recipes,
    declareAtMost: config.declareAtMost,
    effectOf: config.effectOf,
    files,
    allowsRecipe: (name) => permissionNow().recipe(name)
  })
  const noteRules = () => {
    const rules = rulesOf(catalog, config, permissionNow(), recipes)
    if (rules !== undefined) heard.set("operator", rules)
  }
  noteRules()
  const refresh = Effect.tap(catalog.refresh, (notices) => Effect.sync(() => notices !== undefined && noteRules()))
  return { ...catalog, refresh }
})

const ofSampling = ({ max_tokens, ...sampling }: Sampling): Partial<ModelRequest> => ({
  maxOutputTokens: max_tokens,
  sampling
})

/** What was heard of agents and servers since it was recorded last; of those of the preset as the digest of a text that is kept. */
const recordSources = Effect.fnUntraced(function* (
  { environment }: Parts,
  { given: { journal, preset } }: PlanRun,
  heard: Map<string, object>
) {
  if (heard.size === 0) return
  const own = new Set([
    "operator",
    ...preset.agents.map(({ name }) => `card ${name}`),
    ...preset.servers.map(({ terms }) => `server ${terms.name}`)
  ])
  const sources: Record<string, BeginRecord.Source> = {}
  for (const [name, told] of Array.from(heard)) {
    sources[name] = own.has(name) ? { digest: yield* environment.keep(JSON.stringify(told)) } : { told }
  }
  heard.clear()
  const record: BeginRecord.SourcesRecord = { type: "sources", sources }
  journal.record(record)
})

/** Records what the plan begins with in this process. */
const recordBegin = Effect.fnUntraced(function* (
  { environment, local }: Parts,
  { given: { journal, preset, request, resumed }, model }: PlanRun,
  texts: { readonly planner: string; readonly recipes: RecipeTable },
  delimiter: string,
  history: ReadonlyArray<Message>,
  { covered_seq, priors, text }: SessionSummary,
  { listed }: PlanFiles.PlanFiles
) {
  const [first, last] = [history[0], history.at(-1)]
  const told = new Set<string>([...idsTold(history), ...idsOf(request.question_parts)])
  const files = listed.filter(({ file_id }) => !told.has(file_id))
  const hasSummary = text !== null || priors.length > 0
  const record: BeginRecord.BeginRecord = {
    type: "begin",
    version: BeginRecord.version,
    environment: yield* environment.of(preset, { ...texts, local }),
    delimiter,
    history:
      first === undefined || last === undefined
        ? null
        : { first: first.message_id, last: last.message_id, count: history.length },
    ...(hasSummary && { summary: { covered_seq, priors, text } }),
    ...(files.length > 0 && { files }),
    ...(resumed !== undefined && { resumed: true, model })
  }
  journal.record(record)
})

/** How many of the messages that a compaction covers tell which tools were called. */
const rememberedMessages = 200

const emptySession: readonly [ReadonlyArray<Message>, SessionSummary] = [
  [],
  { text: null, covered_seq: 0, priors: [], prior_seq: 0 }
]

/** Reads the session, gathers the tools, and asks the question. */
export const begin = Effect.fnUntraced(function* (
  parts: Parts,
  run: PlanRun
): Effect.fn.Return<Conversation, StorageError | PlannerError, Scope.Scope> {
  const { asker, compaction, config, sessions } = parts
  const { plan_id, session_id, journal, preset, request, resumed, uuid } = run.given
  const stores = Effect.all([sessions.history(session_id), sessions.summary(session_id)], { concurrency: 2 })
  const texts = Effect.all([parts.planner, parts.recipes])
  // The disk is asked while the store is.
  const [[stored, summary], [planner, known]] = run.given.isEmpty
    ? [emptySession, yield* texts]
    : yield* Effect.all([retryWhileAway(stores), texts], { concurrency: 2 })
  const delimiter = uuid()
  const files = yield* parts.filesOf(run, stored, summary.covered_seq > 0)
  // Also of a plan that fails since a server cannot be reached.
  yield* recordBegin(parts, run, { planner, recipes: known }, delimiter, stored, summary, files)
  const heard = new Map<string, object>()
  const { declared, descriptions, notices, recipes, refresh, tools, unreachable, withheld } = yield* gather(
    parts,
    run,
    known,
    heard,
    files
  ).pipe(Effect.tapError(() => recordSources(parts, run, heard)))
  if (declared.isSearched) {
    // What a compaction covers was called, too.
    const cursor = Math.max(summary.covered_seq - rememberedMessages, 0)
    const page = { limit: rememberedMessages, cursor }
    const before = summary.covered_seq === 0 ? [] : (yield* retryWhileAway(sessions.messages(session_id, page))).items
    declared.remember([...before.filter(({ seq }) => seq <= summary.covered_seq), ...stored], plan_id)
    declared.readNames(request.question)
  }
  yield* skipUnavailable(asker, run)
  yield* recordSources(parts, run, heard)

  const question = questionOf(plan_id, request)
  const isAsked = resumed?.isAsked === true
  if (!isAsked) {
    const deadline_at = fromMillis(run.given.deadline)
    const now = yield* Clock.currentTimeMillis
    run.chargeTo(now)
    // Together with the first step, which comes next.
    journal.defer(
      [
        // The session of a fork may have it.
        ...(stored.some(({ message_id }) => message_id === question.message_id)
          ? []
          : [{ _tag: "MessageAppended" as const, message: question, at: fromMillis(now) }]),
        run.charged({ plans: 1, cost_usd: run.progress.cost_usd })
      ],
      [{ event: "plan", data: { model: run.model, deadline_at } }, ...notices]
    )
  }

  const blocks = contextBlocks(delimiter)
  const { response_format: format } = request.preferences
  const frame = (summaries: ReadonlyArray<string>, mustAnswer = false) => ({
    system: systemPrompt({
      planner,
      instructions: preset.instructions,
      ofRequest: request.instructions,
      recipes: recipes.values(),
      delimiter,
      agents: Array.from(new Set(Array.from(tools.values()).flatMap(({ agent }) => agent ?? []))),
      sources: declared.isSearched ? declared.sources(descriptions) : undefined,
      unreachable,
      files: files.listed,
      summary: blocks(summaries),
      mustAnswer,
      responseFormat: format
    }),
    tools: declared.list
  })
  const loop = new PlanLoop(config.loop, tools)
  const read = loop.replay(stored, plan_id)
  const prompt = new PlanPrompt(
    { compaction, config, run, question: { id: question.message_id, entry: question }, frame },
    withQuestion(read, question, isAsked),
    summary.text === null ? summary.priors : [...summary.priors, summary.text]
  )
  return {
    tools,
    withheld,
    refreshTools: Effect.flatMap(refresh, (news) => {
      if (declared.takeNews() || news !== undefined) prompt.reframe()
      // What a server has told is stored with what the caller is told of it.
      const recorded = recordSources(parts, run, heard)
      return news === undefined ? recorded : Effect.map(recorded, () => journal.append([], news))
    }),
    readNames: (text) => declared.readNames(text),
    prompt,
    files,
    delimiter,
    loop,
    lastAnswer: stored.findLast((message) => message.plan_id === plan_id && message.role === "assistant"),
    request: (mustAnswer, corrections) => ({
      ...frame(prompt.summaries, mustAnswer),
      messages: [...legalHistory(prompt.messages), ...corrections],
      toolChoice: mustAnswer ? "none" : "auto",
      isCompacted: prompt.isCompacted,
      ...(format !== "text" && { outputSchema: format.schema }),
      ...(request.sampling !== undefined && ofSampling(request.sampling))
    })
  }
})
