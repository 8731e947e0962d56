import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect, Result } from "effect"
import { waitOfServer } from "../store/AccountWait.ts"
import type { InboxStore } from "../store/InboxStore.ts"
import { canonicalJson } from "../store/CanonicalJson.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import * as McpTools from "../tool/McpTools.ts"
import type { NeededAccount, Tool } from "../tool/Tool.ts"
import { type GatheredTools, maxTools, notAllowed } from "./GatheredTools.ts"
import * as AccountWaits from "./AccountWaits.ts"
import * as McpServers from "./McpServers.ts"
import { noticesOf, type Notice } from "./MissingTools.ts"
import { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"
import * as ToolChanges from "./ToolChanges.ts"

interface Given {
  readonly mcp: McpServers.Given
  readonly lookAgain: AccountWaits.LookAgain
  readonly inboxes: InboxStore["Service"]
}

/** Compares the tools of MCP servers with what the caller knows of them. */
const meet = Effect.fnUntraced(function* (
  tools: Iterable<Tool>,
  run: PlanRun,
  { inboxes }: Given
): Effect.fn.Return<void, StorageError> {
  const known = Array.from(tools).flatMap(({ trust }) =>
    trust === undefined || trust.known === null ? [] : [{ trust, id: trust.known }]
  )
  const digests = new Map(known.map(({ id, trust }) => [id, trust.digest]))
  const now = fromMillis(yield* Clock.currentTimeMillis)
  const standing = yield* retryWhileAway(inboxes.meetTools(run.given.caller, digests, now))
  for (const { id, trust } of known) trust.isChanged = standing.get(id) !== trust.digest
})

/** Has the plan offer the tools of these servers, and no other tools of servers. They end the plan if they are too many. */
const offer = Effect.fnUntraced(function* (
  tools: GatheredTools,
  servers: ReadonlyArray<McpServers.Found>,
  run: PlanRun,
  given: Given
): Effect.fn.Return<ReadonlyArray<Notice>, StorageError | PlannerError> {
  tools.remove("mcp")
  const notices: Array<Notice> = []
  for (const { notices: told, server, tools: own } of servers) {
    const { name } = server.terms
    const missing = own.flatMap((tool) => {
      const reason = tools.add(tool)
      // What the caller may not use of a server that it has not named is nothing to it.
      const isHidden = reason === undefined || (reason === notAllowed && server.urls.length === 0)
      return isHidden ? [] : [{ tool: tool.skill ?? tool.name, reason }]
    })
    notices.push(...told, ...noticesOf({ server: name }, missing))
    const { size } = tools.offered
    if (size <= maxTools) continue
    const message = `Expected at most ${maxTools} tools, got ${size} with those of the MCP server ${name}`
    return yield* new PlannerError({ code: "invalid_request", message, data: { server: name } })
  }
  yield* meet(tools.offered.values(), run, given)
  return [...notices, ...ToolChanges.noticesOf(tools.offered.values())]
})

/** Lists the tools of a server. One that wants an account first makes the plan wait, in front of its first step. */
const list = Effect.fnUntraced(function* (server: McpServers.OfferedServer, run: PlanRun, { lookAgain }: Given) {
  const { name } = server.terms
  const id = waitOfServer(run.given.plan_id, name)
  const ask = (needed: NeededAccount) => {
    const waiter = { id, tool: name, agent: name, input: null, spent: () => 0 }
    const { account, found, message } = needed
    const asked = AccountWaits.ask(run, lookAgain, waiter, { account, found, task_id: null, message })
    return run.stages.within("client")(asked)
  }
  const left = AccountWaits.left(run, id)
  const hasExpired = AccountWaits.hasExpired(run, id)
  let isThere = left === undefined || hasExpired || (yield* ask({ account: left.account, message: "" }))
  for (;;) {
    const listing = yield* run.stages.within("tool")(McpServers.list(server))
    const reason = Result.isFailure(listing.result) ? listing.result.failure.reason : undefined
    if (reason?._tag !== "account_required" || hasExpired || !isThere) return listing
    isThere = yield* ask(reason)
  }
})

/** Adds the tools of MCP servers, which stay connected for as long as the scope. */
export const addAll = Effect.fnUntraced(function* (
  tools: GatheredTools,
  offered: ReadonlyArray<McpServers.OfferedServer>,
  run: PlanRun,
  given: Given
) {
  // Servers may take 10 s.
  if (offered.length > 0) run.given.journal.append([run.progressed("tool")], [])
  const listings = yield* Effect.forEach(offered, (server) => list(server, run, given), { concurrency: "unbounded" })
  let servers = yield* run.stages.within("tool")(McpServers.foundIn(listings, given.mcp))
  const notices = yield* offer(tools, servers, run, given)
  for (const task of run.given.resumed?.tasks ?? []) {
    const isBegun = task.kind === "mcp" && task.state === "running"
    if (isBegun && !tools.has(task.tool)) tools.withheld.set(task.tool, McpTools.missing(task))
  }
  const told = new Set(notices.map(({ data }) => canonicalJson(data)))
  const isNews = ({ data }: Notice): boolean => {
    const text = canonicalJson(data)
    const isTold = told.has(text)
    told.add(text)
    return !isTold
  }

  return {
    descriptions: new Map(
      servers.flatMap(({ connection, server }) =>
        connection?.description == null ? [] : [[server.terms.name, connection.description] as const]
      )
    ),
    unreachable: servers.flatMap(({ connection, server }) => (connection === undefined ? server.terms.name : [])),
    notices,
    refresh: Effect.gen(function* () {
      const listed = yield* run.stages.within("tool")(ToolChanges.listChanged(servers, given.mcp))
      if (listed === undefined) return undefined
      servers = listed
      return (yield* offer(tools, servers, run, given)).filter(isNews)
    })
  }
})
