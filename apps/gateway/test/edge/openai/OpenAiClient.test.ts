import { cut, stall, until } from "@bowline/testing/http/Move"
import { error, finish, refuse, say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect } from "effect"
import OpenAI from "openai"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { post, send, start } from "../../http/RunningGateway.ts"
import { ask, client, contentOf, readOut } from "./ChatClient.ts"

const streamed = { ...ask, stream: true as const }

const file = (content: object) =>
  Effect.map(folderOf({ "gateway.json": JSON.stringify(content) }), (folder) => ({
    BOWLINE_CONFIG: join(folder, "gateway.json")
  }))

/** The failure of a call, as the client reports it. */
const failure = (call: () => PromiseLike<unknown>) =>
  Effect.promise(async () => {
    try {
      await call()
    } catch (cause) {
      if (cause instanceof OpenAI.APIError) {
        const { code, headers, status } = cause as InstanceType<typeof OpenAI.APIError>
        return { status, code, header: (name: string) => headers?.get(name) ?? null }
      }
      throw cause
    }
    throw new Error("The call did not fail")
  })

describe("the client of OpenAI", () => {
  it.live("gets an answer with its usage, and the plan's ids in headers", () =>
    Effect.gen(function* () {
      const { url } = yield* start([
        [say("Hello"), usage({ input_tokens: 10, output_tokens: 4, cached_input_tokens: 2 })]
      ])
      const { data, response } = yield* Effect.promise(() => client(url).chat.completions.create(ask).withResponse())
      const plan = response.headers.get("x-bowline-plan-id")
      assert.strictEqual(data.id, `chatcmpl-${plan}`)
      assert.deepStrictEqual([data.object, data.model], ["chat.completion", "bowline"])
      assert.deepNestedInclude(data.choices[0], { "message.content": "Hello", finish_reason: "stop" })
      assert.deepNestedInclude(data.usage, { total_tokens: 14, "prompt_tokens_details.cached_tokens": 2 })
      const stored = yield* send(`${url}/plans/${plan}`)
      assert.strictEqual(stored.body["session_id"], response.headers.get("x-bowline-session"))
    })
  )

  it.live("streams: its helper puts the answer together", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("Hel"), say("lo"), usage({ input_tokens: 10, output_tokens: 4 })]])
      const answer = yield* Effect.promise(() => {
        const stream = client(url).chat.completions.stream({ ...ask, stream_options: { include_usage: true } })
        return stream.finalChatCompletion()
      })
      assert.deepNestedInclude(answer.choices[0], { "message.content": "Hello", finish_reason: "stop" })
      assert.strictEqual(answer.usage?.total_tokens, 14)
    })
  )

  it.live("gets the first chunk before the provider has answered", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[until(Deferred.await(proceed)), say("late")]])
      const stream = yield* Effect.promise(() => client(url).chat.completions.create(streamed))
      const chunks = stream[Symbol.asyncIterator]()
      const next = Effect.promise(async () => {
        const result: IteratorResult<OpenAI.ChatCompletionChunk, undefined> = await chunks.next()
        return result.value?.choices[0]?.delta
      })
      assert.deepStrictEqual(yield* next, { role: "assistant", content: "" })
      yield* Deferred.succeed(proceed, undefined)
      assert.deepStrictEqual(yield* next, { content: "late" })
    })
  )

  it.live("parses an answer of its schema, and sees a refusal", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say(`{"n":7}`)], [refuse("I would rather not")]])
      const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] }
      const response_format = { type: "json_schema" as const, json_schema: { name: "n", schema } }
      const parse = () => client(url).chat.completions.parse({ ...ask, response_format })
      const { choices } = yield* Effect.promise(parse)
      assert.deepStrictEqual(choices[0]?.message.parsed, { n: 7 })
      const refused = yield* Effect.promise(() => client(url).chat.completions.create(ask))
      assert.deepNestedInclude(refused.choices[0], {
        finish_reason: "content_filter",
        "message.refusal": "I would rather not"
      })
    })
  )

  it.live("sees the error of a plan that fails in the middle, and never a finish", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[error(429)]], { BOWLINE_MAX_RETRIES: "0" })
      const { cause, chunks } = yield* readOut(url)
      assert.instanceOf(cause, OpenAI.APIError)
      assert.deepInclude(cause, { code: "provider_rate_limited", type: "rate_limit_error" })
      assert.notInclude(
        chunks.map(({ choices }) => choices[0]?.finish_reason),
        "stop"
      )
    })
  )

  it.live.each([
    ["error", "", "text_retracted"],
    ["append", "bad\n\n⟲ starting over\n\ngood", undefined],
    ["hold", "good", undefined]
  ] as const)("sees text that is taken back as openai.on_retract says: %s", ([on_retract, content, code]) =>
    Effect.gen(function* () {
      const environment = { BOWLINE_RETRY_BASE: "1ms", ...(yield* file({ openai: { on_retract } })) }
      const retracting = [[say("bad"), cut], [say("good")]]
      const { url } = yield* start([...retracting, ...retracting, ...retracting], environment)
      const { cause, chunks } = yield* readOut(url)
      if (code !== undefined) assert.deepInclude(cause, { code })
      if (code !== undefined) return
      assert.isUndefined(cause)
      assert.strictEqual(contentOf(chunks), content)
      const whole = yield* Effect.promise(() => client(url).chat.completions.create(ask))
      assert.strictEqual(whole.choices[0]?.message.content, "good")
      const other = on_retract === "hold" ? "append" : "hold"
      const chosen = yield* readOut(url, { bowline: { on_retract: other } })
      assert.strictEqual(contentOf(chosen.chunks), other === "hold" ? "good" : "bad\n\n⟲ starting over\n\ngood")
    })
  )

  it.live("lists what the caller may ask, and finds a model by its id, encoded or not", () =>
    Effect.gen(function* () {
      const environment = yield* file({
        presets: { knots: {}, sky: {} },
        permissions: { ann: { presets: { allow: ["k*"] } } }
      })
      const { url } = yield* start([[say("ok")]], { ...environment, BOWLINE_API_KEYS: "ann=key-of-ann" })
      const ann = client(url, "key-of-ann")
      const page = yield* Effect.promise(() => ann.models.list())
      assert.deepStrictEqual(
        page.data.map(({ id, object, owned_by }) => [id, object, owned_by]),
        [
          ["bowline", "model", "bowline"],
          ["bowline/knots", "model", "bowline"]
        ]
      )
      assert.strictEqual((yield* Effect.promise(() => ann.models.retrieve("bowline/knots"))).id, "bowline/knots")
      const headers = { authorization: "Bearer key-of-ann" }
      assert.strictEqual((yield* send(`${url}/v1/models/bowline/knots`, { headers })).body["id"], "bowline/knots")
      for (const model of ["bowline/sky", "bowline/default", "gpt-5"]) {
        for (const call of [() => ann.models.retrieve(model), () => ann.chat.completions.create({ ...ask, model })]) {
          assert.deepInclude(yield* failure(call), { status: 404, code: "model_not_found" })
        }
      }
      const knots = yield* Effect.promise(() => ann.chat.completions.create({ ...ask, model: "bowline/knots" }))
      assert.strictEqual(knots.model, "bowline/knots")
    })
  )

  it.live("ends the plan when it leaves", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("a"), stall]])
      const stream = yield* Effect.promise(() => client(url).chat.completions.create(streamed))
      const [asked] = yield* provider.requests.awaitCount(1)
      stream.controller.abort()
      assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "closed")
    })
  )

  it.live.each([
    [[error(429, {}, { "retry-after": "7" })], {}, 429, "provider_rate_limited", null],
    [[error(401)], {}, 502, "provider_auth", "false"],
    [[stall], { timeout_ms: 100 }, 504, "aborted", null]
  ] as const)("gets the status of how a plan ended: %#", ([turn, preferences, status, code, retry]) =>
    Effect.gen(function* () {
      const { url } = yield* start([turn], { BOWLINE_MAX_RETRIES: "0" })
      const body = { ...ask, bowline: { preferences } }
      const failed = yield* failure(() => client(url).chat.completions.create(body))
      assert.deepInclude(failed, { status, code })
      assert.strictEqual(failed.header("x-should-retry"), retry)
      assert.match(failed.header("x-bowline-plan-id") ?? "", /^plan_/)
    })
  )

  it.live("has its system message behind the planner's instructions, and its history before the question", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("ok"), finish("stop")]])
      const messages = [
        { role: "system" as const, content: "Speak like a sailor." },
        { role: "user" as const, content: "one" },
        { role: "assistant" as const, content: "two" },
        { role: "user" as const, content: "three" }
      ]
      yield* Effect.promise(() => client(url).chat.completions.create({ ...ask, messages }))
      const [sent] = yield* provider.requests.all
      const asked = (
        JSON.parse(sent?.body ?? "{}") as { readonly messages: ReadonlyArray<{ readonly content: string }> }
      ).messages
      assert.match(asked[0]?.content ?? "", /^You are a planner\.[^]*\n\nSpeak like a sailor\.\n\n/)
      assert.deepStrictEqual(
        asked.slice(1).map(({ content }) => content),
        ["one", "two", "three"]
      )
    })
  )

  it.live("names its session: the stored history wins over the one that is sent", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(() => [say("ok")])
      const named = { headers: { "x-bowline-session": "mine" } }
      const talk = (...texts: ReadonlyArray<string>) =>
        Effect.promise(() => {
          const messages = texts.map((content, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content }) as const)
          return client(url)
            .chat.completions.create({ ...ask, messages: [...messages] }, named)
            .withResponse()
        })
      const { response } = yield* talk("one")
      yield* talk("other", "lie", "two")
      assert.strictEqual(response.headers.get("x-bowline-session"), "mine")
      const requests = yield* provider.requests.all
      const last = JSON.parse(requests.at(-1)?.body ?? "{}") as {
        readonly messages: ReadonlyArray<{ readonly content: string }>
      }
      assert.deepStrictEqual(
        last.messages.slice(1).map(({ content }) => content),
        ["one", "ok", "two"]
      )
      const { body } = yield* send(`${url}/sessions/mine/messages`)
      assert.lengthOf(body["messages"] as ReadonlyArray<unknown>, 4)
    })
  )

  it.live("leaves a session for a day, unless it names it", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      for (const [session, kept] of [
        [undefined, "1 day"],
        ["mine", "30 days"]
      ] as const) {
        const headers = session === undefined ? {} : { "x-bowline-session": session }
        const asked = yield* post(`${url}/v1/chat/completions`, ask, headers)
        const { body } = yield* send(`${url}/sessions/${asked.headers.get("x-bowline-session")}`)
        const [active, expires] = [body["last_active_at"], body["expires_at"]].map((at) => Date.parse(String(at)))
        assert.strictEqual((expires ?? 0) - (active ?? 0), Duration.toMillis(kept))
      }
    })
  )

  it.live("of a chat UI enters the chat's session with streams only: titles and tags stay outside", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const chat = { "x-openwebui-chat-id": "chat-1" }
      yield* post(`${url}/v1/chat/completions`, { ...ask, stream: true }, chat)
      yield* post(`${url}/v1/chat/completions`, { ...ask, messages: [{ role: "user", content: "A title?" }] }, chat)
      const { text } = yield* send(`${url}/sessions/chat-1/messages`)
      assert.notInclude(text, "A title?")
      assert.lengthOf((yield* send(`${url}/sessions`)).body["sessions"] as ReadonlyArray<unknown>, 2)
    })
  )

  it.live("never meets another one with the same transcript", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const answers = yield* Effect.all([readOut(url), readOut(url)], { concurrency: 2 })
      assert.strictEqual(new Set(answers.map(({ chunks }) => chunks[0]?.id)).size, 2)
      assert.lengthOf((yield* send(`${url}/sessions`)).body["sessions"] as ReadonlyArray<unknown>, 2)
    })
  )

  it.live("with an Idempotency-Key joins the plan that the first request started", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("only once")]])
      const keyed = { headers: { "Idempotency-Key": "k" } }
      const call = () => Effect.promise(() => client(url).chat.completions.create(ask, keyed))
      const [first, second] = [yield* call(), yield* call()]
      assert.deepStrictEqual([second.id, second.choices], [first.id, first.choices])
      assert.lengthOf(yield* provider.requests.all, 1)
      const other = { ...ask, user: "u" }
      const conflict = yield* failure(() => client(url).chat.completions.create(other, keyed))
      assert.deepInclude(conflict, { status: 409, code: "idempotency_conflict" })
      assert.strictEqual(conflict.header("x-should-retry"), "false")
    })
  )
})
