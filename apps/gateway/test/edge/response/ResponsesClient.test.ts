import { cut, stall, until } from "@bowline/testing/http/Move"
import { error, refuse, say, think, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Schedule } from "effect"
import OpenAI from "openai"
import { post, send, start } from "../../http/RunningGateway.ts"

const responses = (url: string, apiKey = "none") =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 }).responses
const ask = { model: "bowline", input: "?" }
const streamed = { ...ask, stream: true as const }

type Event = OpenAI.Responses.ResponseStreamEvent

/** The failure of a call, as the client reports it. */
const failure = (call: () => PromiseLike<unknown>) =>
  Effect.promise(async () => {
    try {
      await call()
    } catch (cause) {
      if (cause instanceof OpenAI.APIError) {
        const { code, headers, param, status } = cause as InstanceType<typeof OpenAI.APIError>
        return { status, code, param, header: (name: string) => headers?.get(name) ?? null }
      }
      throw cause
    }
    throw new Error("The call did not fail")
  })

const readOut = (stream: AsyncIterable<Event>) =>
  Effect.promise(async () => {
    const events: Array<Event> = []
    for await (const event of stream) events.push(event)
    return events
  })

/** The first events of a stream, which is then left open. */
const take = (stream: AsyncIterable<Event>, isLast: (event: Event) => boolean) =>
  Effect.promise(async () => {
    const events: Array<Event> = []
    const iterator = stream[Symbol.asyncIterator]()
    for (;;) {
      const { done = false, value } = (await iterator.next()) as IteratorResult<Event, undefined>
      if (done || value === undefined) return events
      events.push(value)
      if (isLast(value)) return events
    }
  })

const settled = (url: string, id: string) =>
  Effect.promise(() => responses(url).retrieve(id)).pipe(
    Effect.repeat({
      until: ({ status }) => status !== "queued" && status !== "in_progress",
      schedule: Schedule.spaced("20 millis")
    })
  )

const questionsOf = (body: string | undefined) =>
  (JSON.parse(body ?? "{}") as { readonly messages: ReadonlyArray<{ readonly content: string }> }).messages
    .slice(1)
    .map(({ content }) => content)

describe("the client of OpenAI's Responses", () => {
  it.live("gets a response, which it can retrieve with what it was asked", () =>
    Effect.gen(function* () {
      const turn = [think("Hm"), say("Hello"), usage({ input_tokens: 10, output_tokens: 4, cached_input_tokens: 2 })]
      const { url } = yield* start([turn])
      const input = [
        { role: "developer" as const, content: "Be brief." },
        { role: "user" as const, content: [{ type: "input_text" as const, text: "Who?" }] }
      ]
      const asked = { model: "bowline", instructions: "Be kind.", input, metadata: { k: "v" } }
      const { data, response } = yield* Effect.promise(() => responses(url).create(asked).withResponse())
      const plan = response.headers.get("x-bowline-plan-id")
      assert.strictEqual(data.id, `resp_${plan}`)
      assert.deepInclude(data, {
        status: "completed",
        output_text: "Hello",
        instructions: "Be kind.",
        metadata: { k: "v" },
        background: false
      })
      assert.deepNestedInclude(data.usage, { total_tokens: 14, "input_tokens_details.cached_tokens": 2 })
      const stored = yield* send(`${url}/plans/${plan}`)
      assert.strictEqual(stored.body["session_id"], response.headers.get("x-bowline-session"))
      assert.deepStrictEqual(yield* Effect.promise(() => responses(url).retrieve(data.id)), data)
      const pages = yield* Effect.promise(() => responses(url).inputItems.list(data.id, { limit: 1, order: "asc" }))
      const items = yield* Effect.promise(async () => {
        const items: Array<OpenAI.Responses.ResponseItem> = []
        for await (const item of pages) items.push(item)
        return items
      })
      assert.deepStrictEqual(
        items.map((item) => (item.type === "message" ? [item.role, item.content] : item.type)),
        [
          ["developer", [{ type: "input_text", text: "Be brief." }]],
          ["user", [{ type: "input_text", text: "Who?" }]]
        ]
      )
    })
  )

  it.live("streams: its helper puts the response together, text that was taken back left out", () =>
    Effect.gen(function* () {
      const turns = [
        [say("bad"), cut],
        [say("Hel"), say("lo"), usage({ input_tokens: 10, output_tokens: 4 })]
      ]
      const { url } = yield* start(turns, { BOWLINE_RETRY_BASE: "1ms" })
      const response = yield* Effect.promise(() => responses(url).stream(ask).finalResponse())
      assert.deepInclude(response, { status: "completed", output_text: "Hello" })
      const { output } = yield* Effect.promise(() => responses(url).retrieve(response.id))
      assert.deepStrictEqual(
        output.map(({ id, type }) => [id, type]),
        response.output.map(({ id, type }) => [id, type])
      )
      assert.lengthOf(output, 1)
    })
  )

  it.live("parses an answer of its schema, and sees a refusal as incomplete", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say(`{"n":7}`)], [refuse("I would rather not")]])
      const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] }
      const format = { type: "json_schema" as const, name: "n", schema }
      const parsed = yield* Effect.promise(() => responses(url).parse({ ...ask, text: { format } }))
      assert.deepStrictEqual(parsed.output_parsed, { n: 7 })
      const refused = yield* Effect.promise(() => responses(url).create(ask))
      assert.deepInclude(refused, { status: "incomplete", incomplete_details: { reason: "content_filter" } })
    })
  )

  it.live("reads a stream on behind the last event that it has seen, without a gap or a repeat", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[say("a"), say("b"), until(Deferred.await(proceed)), say("c")]])
      const stream = yield* Effect.promise(() => responses(url).create({ ...streamed, background: true }))
      const first = yield* take(stream, (event) => event.type === "response.output_text.delta" && event.delta === "b")
      stream.controller.abort()
      const [created] = first
      const id = created?.type === "response.created" ? created.response.id : assert.fail()
      const seen = first.at(-1)?.sequence_number ?? assert.fail()
      const rest = yield* Effect.promise(() => responses(url).retrieve(id, { stream: true, starting_after: seen }))
      yield* Deferred.succeed(proceed, undefined)
      const events = [...first, ...(yield* readOut(rest))]
      assert.deepStrictEqual(
        events.map(({ sequence_number }) => sequence_number),
        events.map((_, index) => index)
      )
      const last = events.at(-1)
      assert.deepInclude(last?.type === "response.completed" ? last.response : assert.fail(), { status: "completed" })
      const replay = yield* readOut(yield* Effect.promise(() => responses(url).retrieve(id, { stream: true })))
      assert.deepStrictEqual(replay, events)
      const end = yield* Effect.promise(() =>
        responses(url).retrieve(id, { stream: true, starting_after: events.length - 1 })
      )
      assert.deepStrictEqual(yield* readOut(end), [])
      for (const starting_after of [events.length, -1]) {
        const past = yield* failure(() => responses(url).retrieve(id, { stream: true, starting_after }))
        assert.deepInclude(past, { status: 400, param: "starting_after" })
      }
    })
  )

  it.live("has its sampling fields sent to the provider, and repeated in the response", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("ok")]], { BOWLINE_MODEL: "openai/gpt-4.1" })
      const sampling = { temperature: 0.5, top_p: 0.9, max_output_tokens: 77 }
      const response = yield* Effect.promise(() => responses(url).create({ ...ask, ...sampling }))
      assert.deepInclude(response, sampling)
      const [sent] = yield* provider.requests.all
      assert.deepInclude(JSON.parse(sent?.body ?? "{}"), { temperature: 0.5, top_p: 0.9, max_tokens: 77 })
    })
  )

  it.live("gets a background response at once, and cancels it", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("a"), stall], [say("done")]])
      const { id, status } = yield* Effect.promise(() => responses(url).create({ ...ask, background: true }))
      assert.include(["queued", "in_progress"], status)
      const [asked] = yield* provider.requests.awaitCount(1)
      const cancelled = yield* Effect.promise(() => responses(url).cancel(id))
      assert.deepNestedInclude(cancelled, { id, status: "cancelled", background: true, "error.code": "aborted" })
      assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "closed")
      assert.deepStrictEqual(yield* Effect.promise(() => responses(url).cancel(id)), cancelled)
      const second = yield* Effect.promise(() => responses(url).create({ ...ask, background: true }))
      assert.deepInclude(yield* settled(url, second.id), { status: "completed", output_text: "done" })
    })
  )

  it.live("is told at once that its response waits for the conversation", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[stall], [say("after")]])
      const talk = { ...ask, conversation: "mine" }
      const first = yield* Effect.promise(() => responses(url).create({ ...talk, background: true }))
      yield* provider.requests.awaitCount(1)
      const stream = yield* Effect.promise(() => responses(url).create({ ...talk, stream: true }))
      const [early, whole] = stream.tee()
      const queued = yield* take(early, ({ type }) => type === "response.queued")
      assert.deepStrictEqual(
        queued.map(({ type }) => type),
        ["response.created", "response.queued"]
      )
      yield* Effect.promise(() => responses(url).cancel(first.id))
      const events = yield* readOut(whole)
      assert.deepStrictEqual([events[2]?.type, events.at(-1)?.type], ["response.in_progress", "response.completed"])
    })
  )

  it.live("ends a response that is not in the background when it leaves", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("a"), stall]])
      const stream = yield* Effect.promise(() => responses(url).create(streamed))
      const [asked] = yield* provider.requests.awaitCount(1)
      stream.controller.abort()
      assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "closed")
    })
  )

  it.live("continues an earlier response, or a conversation, but not both", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(() => [say("ok")])
      const one = yield* Effect.promise(() => responses(url).create({ ...ask, input: "one" }))
      const two = yield* Effect.promise(() =>
        responses(url).create({ ...ask, input: "two", previous_response_id: one.id })
      )
      assert.strictEqual(two.previous_response_id, one.id)
      const talk = { ...ask, input: "three", conversation: "mine" }
      const three = yield* Effect.promise(() => responses(url).create(talk))
      assert.deepStrictEqual(three.conversation, { id: "mine" })
      yield* Effect.promise(() => responses(url).create({ ...ask, input: "four", conversation: { id: "mine" } }))
      const requests = yield* provider.requests.all
      assert.deepStrictEqual(
        requests.map(({ body }) => questionsOf(body)),
        [["one"], ["one", "ok", "two"], ["three"], ["three", "ok", "four"]]
      )
      for (const fields of [
        { conversation: "mine", previous_response_id: one.id },
        { previous_response_id: "resp_x" },
        { previous_response_id: "resp_plan_00000000-0000-4000-8000-000000000000" },
        { previous_response_id: one.id.replace("resp_", "") }
      ]) {
        const refused = yield* failure(() => responses(url).create({ ...ask, ...fields }))
        assert.deepInclude(refused, { status: 400, param: "previous_response_id" })
      }
    })
  )

  it.live("keeps the history by references to the items of earlier responses", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(() => [think("Hm"), say("ok")])
      const one = yield* Effect.promise(() => responses(url).create({ ...ask, input: "one" }))
      const asked = yield* Effect.promise(() => responses(url).inputItems.list(one.id))
      const refer = (id: string) => ({ type: "item_reference" as const, id })
      const ids = [asked.data[0]?.id ?? "", ...one.output.map(({ id }) => id ?? "")]
      const two = { role: "user" as const, content: "two" }
      yield* Effect.promise(() => responses(url).create({ ...ask, input: [...ids.map(refer), two] }))
      const requests = yield* provider.requests.all
      assert.deepStrictEqual(questionsOf(requests.at(-1)?.body), ["one", "ok", "two"])
      const unknown = refer(ids.at(-1)?.replace(/\d$/, "9") ?? "")
      const refused = yield* failure(() => responses(url).create({ ...ask, input: [unknown, two] }))
      assert.deepInclude(refused, { status: 400, param: "input[0].id" })
    })
  )

  it.live("deletes a response, and what was said in it with it, unless others continue it", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const create = (fields: object) => Effect.promise(() => responses(url).create({ ...ask, ...fields }))
      const alone = yield* create({})
      const first = yield* create({})
      const second = yield* create({ previous_response_id: first.id })
      const sessionsOf = send(`${url}/sessions`).pipe(
        Effect.map(({ body }) => (body["sessions"] as ReadonlyArray<unknown>).length)
      )
      assert.strictEqual(yield* sessionsOf, 2)
      for (const { id } of [alone, first]) {
        const deleted = yield* send(`${url}/v1/responses/${id}`, { method: "DELETE" })
        assert.deepStrictEqual(deleted.body, { id, object: "response", deleted: true })
        assert.deepInclude(yield* failure(() => responses(url).retrieve(id)), { status: 404, code: "not_found" })
      }
      assert.strictEqual(yield* sessionsOf, 1)
      assert.strictEqual((yield* Effect.promise(() => responses(url).retrieve(second.id))).output_text, "ok")
      assert.deepInclude(yield* failure(() => responses(url).delete(first.id)), { status: 404 })
    })
  )

  it.live("finds no response that was not to be stored, that is somebody else's, or that is another plan", () =>
    Effect.gen(function* () {
      const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }
      const { url } = yield* start(() => [say("ok")], keys)
      const [ann, bob] = [responses(url, "key-of-ann"), responses(url, "key-of-bob")]
      const kept = yield* Effect.promise(() => ann.create(ask))
      const { data: unstored, response } = yield* Effect.promise(() =>
        ann.create({ ...ask, store: false }).withResponse()
      )
      assert.strictEqual(unstored.output_text, "ok")
      const headers = { authorization: "Bearer key-of-ann" }
      const session = yield* send(`${url}/sessions/${response.headers.get("x-bowline-session")}`, { headers }).pipe(
        Effect.repeat({ until: ({ status }) => status === 404, schedule: Schedule.spaced("20 millis") })
      )
      assert.strictEqual(session.body["code"], "not_found")
      const native = yield* post(`${url}/plan`, { question: "?" }, headers)
      const missing = [
        () => bob.retrieve(kept.id),
        () => bob.cancel(kept.id),
        () => bob.delete(kept.id),
        () => bob.inputItems.list(kept.id),
        () => ann.retrieve(unstored.id),
        () => ann.retrieve(`resp_${String(native.body["plan_id"])}`),
        () => ann.retrieve("resp_x")
      ]
      for (const call of missing) assert.deepInclude(yield* failure(call), { status: 404, code: "not_found" })
      const reference = { type: "item_reference", id: unstored.output[0]?.id }
      const gone: ReadonlyArray<readonly [fields: object, param: string]> = [
        [{ previous_response_id: unstored.id }, "previous_response_id"],
        [{ input: [reference, { role: "user", content: "?" }] }, "input[0].id"]
      ]
      for (const [fields, param] of gone) {
        const refused = yield* failure(() => ann.create({ ...ask, ...fields }))
        assert.deepInclude(refused, { status: 400, param })
      }
      assert.deepInclude(yield* failure(() => responses(url, "wrong").retrieve(kept.id)), {
        status: 401,
        code: "invalid_api_key"
      })
    })
  )

  it.live.each([
    [[error(429, {}, { "retry-after": "7" })], {}, 429, "provider_rate_limited", null, "7"],
    [[error(429)], {}, 429, "provider_rate_limited", null, "2"],
    [[error(401)], {}, 502, "provider_auth", "false", null],
    [[stall], { timeout_ms: 100 }, 504, "aborted", null, null]
  ] as const)("gets the status of how a plan ended, and finds the response as failed: %#", (row) =>
    Effect.gen(function* () {
      const [turn, preferences, status, code, retry, after] = row
      const { url } = yield* start([turn], { BOWLINE_MAX_RETRIES: "0" })
      const failed = yield* failure(() => responses(url).create({ ...ask, bowline: { preferences } } as typeof ask))
      assert.deepInclude(failed, { status, code })
      assert.strictEqual(failed.header("x-should-retry"), retry)
      assert.strictEqual(failed.header("retry-after"), after)
      const id = `resp_${failed.header("x-bowline-plan-id")}`
      const response = yield* Effect.promise(() => responses(url).retrieve(id))
      assert.deepNestedInclude(response, { status: "failed", "error.code": code })
      const replay = yield* readOut(yield* Effect.promise(() => responses(url).retrieve(id, { stream: true })))
      assert.strictEqual(replay.at(-1)?.type, "response.failed")
    })
  )

  it.live.each<readonly [fields: object, param: string]>([
    [{ input: [{ type: "function_call_output", call_id: "c", output: "o" }] }, "input"],
    [
      { input: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] },
      "input[0].content[0].image_url"
    ],
    [{ input: [{ role: "assistant", content: "?" }] }, "input"],
    [{ input: [] }, "input"],
    [{ input: " " }, "input"],
    [
      { input: [{ type: "mcp_approval_response", approval_request_id: "x", approve: true }] },
      "input[0].approval_request_id"
    ],
    [{ tools: [{ type: "function", name: "f f", parameters: {} }] }, "tools[0].name"],
    [{ tools: [{ type: "mcp", server_label: "a", server_url: "ftp://x" }] }, "tools[0].server_url"],
    [{ tools: [{ type: "mcp", server_label: "a", connector_id: "x" }] }, "tools[0].connector_id"],
    [{ tools: [{ type: "mcp", server_label: "a b", server_url: "https://x.example" }] }, "tools[0].server_label"],
    [{ tool_choice: "required" }, "tool_choice"],
    [{ max_tool_calls: -1 }, "max_tool_calls"],
    [{ temperature: 3 }, "temperature"],
    [{ reasoning: { effort: "much" } }, "reasoning.effort"],
    [{ text: { format: { type: "json_schema", schema: { type: 7 } } } }, "text.format.schema"],
    [{ prompt: { id: "p" } }, "prompt"],
    [{ bowline: { agent: [] } }, "bowline.agent"]
  ])("is told which field is wrong: %j", ([fields, param]) =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const refused = yield* failure(() => responses(url).create({ ...ask, ...fields }))
      assert.deepInclude(refused, { status: 400, code: "invalid_request", param })
      assert.strictEqual(refused.header("x-should-retry"), "false")
      assert.deepStrictEqual((yield* send(`${url}/plans`)).body["plans"], [])
    })
  )

  it.live("with an Idempotency-Key joins the response that the first request started", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("only once")]])
      const keyed = { headers: { "Idempotency-Key": "k" } }
      const call = () => Effect.promise(() => responses(url).create(ask, keyed))
      const [first, second] = [yield* call(), yield* call()]
      assert.deepStrictEqual(second, first)
      assert.lengthOf(yield* provider.requests.all, 1)
    })
  )
})
