import { CallerName } from "@bowline/domain/caller/CallerName"
import { PeerError } from "@bowline/domain/peer/PeerError"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { SecretKey } from "@bowline/runtime/store/SecretKey"
import * as CallerTokens from "@bowline/runtime/unstable/auth/CallerTokens"
import * as PeerAuth from "@bowline/runtime/unstable/auth/PeerAuth"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { AccountStore } from "@bowline/runtime/unstable/store/AccountStore"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { json, type Host } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { layerOnStore, pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Deferred, Effect, Layer, Schema, Scope } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { join } from "node:path"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { Accounts } from "../../src/http/ConnectedAccounts.ts"
import * as GrantedAccounts from "../../src/http/GrantedAccounts.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"

const quarter = 15 * 60_000
const calls = 30
const callers = ["ann", "bob"].map((name) => CallerName.make(name))

/** Calls the agent every 10 minutes, for 5 hours. */
const script: Script = (asked) => {
  const done = results(asked).length
  if (done >= 2 * calls) return [say("done")]
  const next = { seconds: 600, why: "The next round" }
  return [done % 2 === 0 ? callTool("bank_pay", { input: `${done}` }) : callTool("wait", next)]
}

const decode = Schema.decodeUnknownEffect(PlanRequest)

/**
 * An authorization server whose access tokens live for 15 minutes and whose refresh tokens are good once: one that comes again ends its grant. It takes a second for each answer. `onRefresh` is told which
 * replica has sent it a refresh token.
 */
const makeServer = (onRefresh: (replica: string) => void) => {
  const codes = new Map<string, { readonly challenge: string; readonly subject: string }>()
  const grants = new Map<number, string>()
  const refreshes = new Map<string, number>()
  const tokens = new Map<string, { readonly grant: number; readonly until: number }>()
  const used = new Set<string>()
  const seen = { again: 0, refreshed: 0, granted: 0 }
  let issued = 0
  const issue = (grant: number, now: number) => {
    const [access_token, refresh_token] = [`access-${++issued}`, `refresh-${issued}`]
    tokens.set(access_token, { grant, until: now + quarter })
    refreshes.set(refresh_token, grant)
    return json(200, { access_token, refresh_token, token_type: "Bearer", expires_in: quarter / 1_000 })
  }
  const host: Host = ({ body, headers }) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const form = new URLSearchParams(body)
      const code = codes.get(form.get("code") ?? "")
      if (code !== undefined) {
        codes.delete(form.get("code") ?? "")
        const verifier = createHash("sha256")
          .update(form.get("code_verifier") ?? "")
          .digest("base64url")
        if (verifier !== code.challenge) return json(400, { error: "invalid_grant" })
        grants.set(++seen.granted, code.subject)
        return issue(seen.granted, now)
      }
      const token = form.get("refresh_token") ?? ""
      const grant = refreshes.get(token)
      if (used.has(token)) seen.again++
      if (used.has(token) && grant !== undefined) grants.delete(grant)
      if (grant === undefined || !grants.has(grant)) return json(400, { error: "invalid_grant" })
      used.add(token)
      seen.refreshed++
      onRefresh(headers["x-replica"] ?? "")
      yield* Effect.sleep("1 second")
      return issue(grant, now)
    })
  return {
    host,
    seen,
    /** Whoever is logged in there as `subject` agrees. */
    agree: (at: URL, subject: string): URL => {
      const code = `code-${codes.size}-${seen.granted}`
      codes.set(code, { challenge: at.searchParams.get("code_challenge") ?? "", subject })
      const back = new URL(at.searchParams.get("redirect_uri") ?? "")
      back.searchParams.set("code", code)
      back.searchParams.set("state", at.searchParams.get("state") ?? "")
      return back
    },
    /** As whom a token acts now, if as anybody. */
    subjectOf: (token: string, now: number): string | undefined => {
      const found = tokens.get(token)
      return found !== undefined && found.until > now ? grants.get(found.grant) : undefined
    }
  }
}

const isStatement = (value: unknown): value is Effect.Effect<unknown> => Effect.isEffect(value)

/** All that a process asks of a store, for as long as it lives. */
const whileAlive = <S extends object>(service: S, isDead: () => boolean): S => {
  const alive = (asked: Effect.Effect<unknown>) =>
    Effect.suspend(() => (isDead() ? Effect.never : asked)).pipe(
      Effect.flatMap((answer) => (isDead() ? Effect.never : Effect.succeed(answer)))
    )
  return new Proxy(service, {
    get: (target, name): unknown => {
      const member: unknown = Reflect.get(target, name)
      if (isStatement(member)) return alive(member)
      if (typeof member !== "function") return member
      return (...given: ReadonlyArray<unknown>): unknown => {
        const made: unknown = Reflect.apply(member, target, given)
        return isStatement(made) ? alive(made) : made
      }
    }
  })
}

describe("an evening of calls as two callers, at accounts whose refresh tokens are good once", () => {
  it.effect(
    "has no call as anybody else, none that is unauthorized, and no token used twice, while replicas are killed",
    () =>
      Effect.gen(function* () {
        const replicas: Array<Effect.Success<typeof start>> = []
        let inRefresh = false
        const server = makeServer((replica) => {
          if (!inRefresh) return
          inRefresh = false
          replicas.find(({ name }) => name === replica)?.kill()
        })
        const { url } = yield* (yield* Network).serve(server.host)
        const account = {
          authorization_url: `${url}/authorize`,
          token_url: `${url}/token`,
          client_id: "x",
          scopes: ["pay"]
        }
        const folder = yield* folderOf({
          "gateway.json": JSON.stringify({ accounts: { books: { ...account, resource: "http://bank.test/" } } })
        })
        const config = yield* fromEnvironment(
          {
            BOWLINE_CONFIG: join(folder, "gateway.json"),
            BOWLINE_SECRET_KEY: Buffer.alloc(32, 7).toString("base64"),
            OPENAI_API_KEY: "key"
          },
          false
        )
        const client = yield* HttpClient.HttpClient
        const seen: Array<{ readonly plan: string; readonly subject: string | undefined }> = []
        let [count, killed] = [0, 0]

        const start = Effect.gen(function* () {
          const name = `replica-${++count}`
          let isDead = false
          const outer = yield* Effect.context<MemoryStore.Stores>()
          const over = <Id extends MemoryStore.Stores, Shape extends object>(key: Context.Key<Id, Shape>): Shape =>
            whileAlive(Context.get(outer, key), () => isDead)
          const stores = Layer.succeedContext(
            outer.pipe(
              // A process that dies leaves them there.
              Context.add(PlanStore, { ...over(PlanStore), isDurable: true }),
              Context.add(LeaseStore, over(LeaseStore)),
              Context.add(SessionStore, over(SessionStore)),
              Context.add(InboxStore, over(InboxStore)),
              Context.add(AccountStore, over(AccountStore)),
              Context.add(
                HttpClient.HttpClient,
                HttpClient.mapRequest(client, HttpClientRequest.setHeader("x-replica", name))
              )
            )
          )
          const auths = yield* Deferred.make<PeerAuth.PeerAuths>()
          const call: PeerClient["Service"]["call"] = ({ agent, input }) =>
            Effect.gen(function* () {
              const auth = yield* (yield* Deferred.await(auths)).forAgent(agent.auth, agent.endpoint)
              const { authorization = "" } = yield* auth.headers("")
              const subject = server.subjectOf(authorization.replace("Bearer ", ""), yield* Clock.currentTimeMillis)
              if (!isDead) seen.push({ plan: (yield* CallerTokens.OnBehalfOf) ?? "", subject })
              yield* Effect.sleep("1 second")
              return { state: "completed", content: JSON.stringify(input), verified: "unknown" } as const
            }).pipe(Effect.catchTag("ExchangeError", ({ reason }) => Effect.fail(new PeerError({ reason }))))
          const scope = yield* Scope.make()
          yield* Effect.addFinalizer((exit) => (isDead ? Effect.void : Scope.close(scope, exit)))
          const built = yield* Layer.fresh(layerOnStore({ script, peers: { call } })).pipe(
            Layer.provideMerge(Layer.fresh(GrantedAccounts.layer(config))),
            Layer.provideMerge(Layer.fresh(CallerTokens.layer)),
            Layer.provideMerge(stores),
            Layer.provide(Layer.succeed(SecretKey, config.secretKey)),
            Layer.buildWithScope(scope)
          )
          yield* Deferred.succeed(auths, yield* PeerAuth.make(client).pipe(Effect.provide(built)))
          const kill = () => {
            killed += isDead ? 0 : 1
            isDead = true
          }
          return { name, kill, isDead: () => isDead, built }
        })
        const keep = Effect.gen(function* () {
          for (const [index, one] of replicas.entries()) if (one.isDead()) replicas[index] = yield* start
          return replicas[0] ?? assert.fail()
        })

        /** A caller looks what waits, and takes the link. */
        const grant = Effect.fnUntraced(function* (caller: CallerName) {
          const { built } = yield* keep
          const accounts = Context.get(built, Accounts) ?? assert.fail()
          const { items } = yield* Context.get(built, Inbox).waiting(caller, { kind: "account" }, { limit: 10 })
          for (const { url } of items) {
            const opened = yield* accounts.open(new URL(accounts.freshen(url ?? "")).searchParams.get("link") ?? "")
            assert.strictEqual(opened.caller, caller)
            assert.isTrue(yield* accounts.use(opened))
            const way = yield* accounts.depart(opened, "http://localhost")
            const { search } = server.agree(way.url, caller)
            yield* accounts.arrive(yield* accounts.openKept(way.kept), {
              base: "http://localhost",
              place: undefined,
              search
            })
          }
          return items.length
        })

        replicas.push(yield* start, yield* start)
        const agent = {
          name: "bank",
          endpoint: "http://bank.test/",
          skills: [{ id: "pay", idempotent: true }],
          auth: { type: "account", account: "books" }
        }
        const preferences = { on_disconnect: "continue", may_wait: true, max_steps: 100, timeout_ms: 21_600_000 }
        const plans = yield* Effect.forEach(callers, (caller, index) =>
          Effect.gen(function* () {
            const request = yield* Effect.orDie(decode({ question: "?", agents: [agent], preferences }))
            const streams = Context.get((replicas[index] ?? assert.fail()).built, PlanStreams)
            const { plan_id } = yield* Effect.scoped(streams.start({ caller, request }))
            return { caller, plan_id }
          })
        )
        const read = Effect.flatMap(keep, ({ built }) =>
          Effect.forEach(plans, ({ caller, plan_id }) => Context.get(built, Plans).get(caller, plan_id))
        )
        let waits = 0
        for (let minute = 0; minute < 720; minute += 5) {
          if ((yield* read).every(({ state }) => state === "completed")) break
          yield* pass("3 seconds", "1 second")
          yield* TestClock.adjust("297 seconds")
          // Every hour one dies: in turn at once, and when it has just sent a refresh token.
          if (minute % 120 === 5) replicas[(minute - 5) % 240 === 0 ? 0 : 1]?.kill()
          if (minute % 120 === 65) inRefresh = true
          yield* keep
          for (const caller of callers) waits += yield* grant(caller)
        }
        for (const { state, tool_calls } of yield* read)
          assert.deepStrictEqual([state, tool_calls], ["completed", 2 * calls])
        assert.isAtLeast(seen.length, 2 * calls)
        for (const { plan, subject } of seen) assert.strictEqual(subject, plan)
        assert.strictEqual(server.seen.again, 0)
        assert.isAtLeast(killed, 5)
        assert.isAbove(server.seen.refreshed, 2 * 10)
        // Each of them has granted it once at first, and again where nobody knows what has become of a token.
        assert.isAtLeast(waits, callers.length + 2)
        assert.strictEqual(server.seen.granted, waits)
      }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, MemoryNetwork.layer)))
  )
})
