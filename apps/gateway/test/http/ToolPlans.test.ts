import { type BowlineError, createBowline as createPlain, type PlanFrame } from "@bowline/client"
import { type ClientTools, createBowline } from "@bowline/client/tools"
import { stall } from "@bowline/testing/http/Move"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { start } from "./RunningGateway.ts"

const schema = { type: "object", properties: { among: { type: "integer" } }, required: ["among"] }
const output = { type: "object", properties: { color: { type: "string" } }, required: ["color"] }

/** A model that calls `pick`, and says what it was told. */
const picks = (...inputs: ReadonlyArray<number>) =>
  start((asked) =>
    results(asked).length === 0
      ? inputs.map((among) => callTool("pick", { among }))
      : [say([...results(asked), question(asked)].join("|"))]
  )

const request = (tools: ClientTools) => ({ question: "Which?", tools })

const run = <A>(work: () => Promise<A>) => Effect.promise(work)

/** A tool that is told when to answer, and counts its runs. */
const held = () => {
  const begun = Promise.withResolvers<AbortSignal>()
  const answer = Promise.withResolvers<unknown>()
  let runs = 0
  const tools: ClientTools = {
    pick: {
      schema,
      // Only the first call is ever answered.
      run: (_, { signal }) => {
        begun.resolve(signal)
        return runs++ === 0 ? answer.promise : new Promise(() => undefined)
      }
    }
  }
  return { tools, begun: begun.promise, answer: answer.resolve, runs: () => runs }
}

const all = async <A>(list: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const entries: Array<A> = []
  for await (const entry of list) entries.push(entry)
  return entries
}

const urlOf = (input: Parameters<typeof fetch>[0]): string => (input instanceof Request ? input.url : String(input))

const untilEvent = async (frames: AsyncIterable<PlanFrame>, event: PlanFrame["event"]): Promise<PlanFrame> => {
  for await (const frame of frames) if (frame.event === event) return frame
  throw new Error(`No ${event} came`)
}

describe("tools that the client runs", () => {
  it.live("are declared, called with their input, and answered, each call once", () =>
    Effect.gen(function* () {
      const { url } = yield* picks(3, 4)
      const inputs: Array<number> = []
      const pick = {
        description: "Lets the person choose",
        schema,
        output,
        run: ({ among }: { readonly among: number }) => {
          inputs.push(among)
          return { color: among === 3 ? "red" : "blue" }
        }
      }
      const { text } = yield* run(() => createBowline({ baseUrl: url }).plan(request({ pick })).result())
      assert.deepStrictEqual(
        inputs.toSorted((a, b) => a - b),
        [3, 4]
      )
      assert.include(text, '{"color":"red"}')
      assert.include(text, '{"color":"blue"}')
    })
  )

  it.live("tell the model what they throw, and that a result is none", () =>
    Effect.gen(function* () {
      for (const [tool, said] of [
        [() => Promise.reject(new Error("The person has left")), "The person has left"],
        [() => ({ color: 7 }), "content"],
        [() => ({ color: 7n }), "BigInt"]
      ] as const) {
        const { url } = yield* picks(3)
        const plan = createBowline({ baseUrl: url }).plan(request({ pick: { schema, output, run: tool } }))
        const result = plan.result()
        const finished = yield* run(() => untilEvent(plan, "task.finished"))
        assert.deepInclude(finished.data, { state: "failed" })
        assert.include((yield* run(() => result)).text, said)
      }
    })
  )

  it.live("with an effect are not said to have failed where their result is none, and are made once", () =>
    Effect.gen(function* () {
      const { url } = yield* picks(3, 3)
      const refused = Promise.withResolvers<void>()
      let runs = 0
      const pay = () => {
        runs++
        return { color: 7 }
      }
      const effect = { key: ["/among"], scope: "caller" } as const
      const bowline = createBowline({
        baseUrl: url,
        fetch: async (input, init) => {
          const answer = await fetch(input, init)
          if (urlOf(input).endsWith("/inbox") && answer.status === 400) refused.resolve()
          return answer
        }
      })
      const plan = bowline.plan(request({ pick: { schema, output, effect, run: pay } }))
      const result = plan.result()
      yield* run(() => refused.promise)
      const [one] = yield* run(() => all(bowline.waiting.list({ kind: "result" })))
      const entry = { type: "result", task_id: one?.task_id ?? "", content: { color: "red" } } as const
      yield* run(async () => bowline.inbox.send(await plan.planId, entry))
      assert.match((yield* run(() => result)).text, /red[^]*red[^]*It was not done again/)
      assert.strictEqual(runs, 1)
    })
  )

  it.live("are found again in a second process, which runs what waits and nothing that has a result", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        results(asked).length < 2 ? [callTool("pick", { among: results(asked).length })] : [say("done")]
      )
      const first = held()
      const plan = createBowline({ baseUrl: url }).plan(request(first.tools))
      const result = plan.result()
      yield* run(() => first.begun)
      const second = held()
      const { pick } = second.tools
      const inputs: Array<unknown> = []
      let isFirstEnded = false
      const found = createBowline({ baseUrl: url }).attach(yield* run(() => plan.planId), {
        tools: {
          pick: {
            schema,
            run: (input, call) => {
              inputs.push(input)
              if (input["among"] === 0) return pick?.run(input, call)
              isFirstEnded = signal.aborted
              return "two"
            }
          }
        }
      })
      const signal = yield* run(() => second.begun)
      // The first process has a result before: the second one's call is ended.
      first.answer("one")
      yield* run(() => untilEvent(plan, "task.finished"))
      yield* run(() => found.result())
      yield* run(() => result)
      assert.isTrue(isFirstEnded)
      assert.deepStrictEqual(inputs, [{ among: 0 }, { among: 1 }])
      // A third one, which reads the plan from its start, runs nothing.
      const third = held()
      yield* run(() =>
        createBowline({ baseUrl: url })
          .attach(plan.view().planId ?? "", { tools: third.tools })
          .result()
      )
      assert.strictEqual(third.runs(), 0)
    })
  )

  it.live("are found behind the last frame that is known, and run once however often what waits is listed", () =>
    Effect.gen(function* () {
      const { url } = yield* picks(3)
      const bowline = createPlain({ baseUrl: url })
      const plan = bowline.plan({ question: "Which?", tools: [{ name: "pick", input_schema: schema }] })
      const result = plan.result()
      const waiting = yield* run(() => untilEvent(plan, "waiting"))
      for (const after of [0, waiting.id]) {
        const tool = held()
        const list = Promise.withResolvers<void>()
        const again = Promise.withResolvers<void>()
        let lists = 0
        // What waits is known only when its frame has come, and is asked for once more then.
        const slow: typeof fetch = async (input, init) => {
          const isList = urlOf(input).includes("/waiting")
          if (isList && lists++ === 0) await list.promise
          const response = await fetch(input, init)
          if (isList && lists === 2) again.resolve()
          return response
        }
        const leaving = new AbortController()
        const { signal } = leaving
        const found = createBowline({ baseUrl: url, fetch: slow }).attach(plan.view().planId ?? "", {
          after,
          signal,
          tools: tool.tools
        })
        found.result().catch(() => undefined)
        if (after === 0) yield* run(() => untilEvent(found, "waiting"))
        list.resolve()
        yield* run(() => tool.begun)
        if (after === 0) yield* run(() => again.promise)
        else {
          tool.answer("red")
          yield* run(() => result)
        }
        assert.strictEqual(tool.runs(), 1)
        leaving.abort()
      }
    })
  )

  it.live("are run once where the stream breaks, and give their result after an outage", () =>
    Effect.gen(function* () {
      const { url } = yield* picks(3)
      const tool = held()
      let isAway = false
      const refused = Promise.withResolvers<void>()
      let cut = new AbortController()
      const broken: typeof fetch = (input, init) => {
        if (isAway) {
          if (urlOf(input).endsWith("/inbox")) refused.resolve()
          return Promise.reject(new TypeError("Away"))
        }
        const signal = AbortSignal.any([cut.signal].concat(init?.signal ?? []))
        return fetch(input, { ...init, signal })
      }
      const cuts: Array<string> = []
      const bowline = createBowline({
        baseUrl: url,
        fetch: broken,
        maxRetries: 0,
        onEvent: ({ type }) => void cuts.push(type)
      })
      const plan = bowline.plan(request(tool.tools))
      yield* run(() => tool.begun)
      isAway = true
      cut.abort()
      cut = new AbortController()
      tool.answer("red")
      yield* run(() => refused.promise)
      isAway = false
      assert.include((yield* run(() => plan.result())).text, "red")
      assert.strictEqual(tool.runs(), 1)
      assert.include(cuts, "cut")
    })
  )

  it.live("end with the plan, which ends when its last reader leaves", () =>
    Effect.gen(function* () {
      const { url } = yield* picks(3)
      const tool = held()
      const plan = createBowline({ baseUrl: url }).plan(request(tool.tools))
      const reading = plan[Symbol.asyncIterator]()
      yield* run(() => reading.next())
      const signal = yield* run(() => tool.begun)
      yield* run(() => Promise.resolve(reading.return?.()))
      const id = yield* run(() => plan.planId)
      const ended = createPlain({ baseUrl: url }).attach(id)
      const error = yield* run(() =>
        ended.result().then(
          () => undefined,
          (error: BowlineError) => error
        )
      )
      assert.strictEqual(error?.reason, "cancelled")
      assert.isTrue(signal.aborted)
    })
  )
})

describe("what is said to a plan", () => {
  it.live("is a message of its next request, once, and a question behind its end", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        question(asked) === "Which?" ? [say("half"), stall] : [say(`heard: ${question(asked)}`)]
      )
      const bowline = createPlain({ baseUrl: url })
      const plan = bowline.plan({ question: "Which?" })
      yield* run(async () => untilEvent(bowline.attach(await plan.planId), "text.delta"))
      const said = yield* run(() => plan.send("The red one", { when: "now", key: "one" }))
      assert.deepInclude(yield* run(() => plan.send("The red one", { when: "now", key: "one" })), said)
      assert.deepInclude(said, { moved: false, plan_id: yield* run(() => plan.planId) })
      assert.strictEqual((yield* run(() => plan.result())).text, "heard: The red one")
      const next = yield* run(() => plan.send("And now?"))
      assert.isTrue(next.moved)
      assert.strictEqual((yield* run(() => bowline.attach(next.plan_id).result())).text, "heard: And now?")
      const refused = yield* run(() =>
        plan.send("No", { else: "reject" }).then(
          () => undefined,
          (error: BowlineError) => error.code
        )
      )
      assert.strictEqual(refused, "plan_over")
    })
  )

  it.live("lists what waits, by kind, page by page", () =>
    Effect.gen(function* () {
      const { url } = yield* picks(1, 2, 3)
      const bowline = createBowline({ baseUrl: url })
      const answer = Promise.withResolvers<string>()
      const plan = bowline.plan(request({ pick: { schema, run: () => answer.promise } }))
      const first = yield* run(async () => {
        for await (const { event } of bowline.attach(await plan.planId)) if (event === "waiting") break
        for (;;) {
          const page = await bowline.waiting.list({ kind: "result", limit: 2 }).page()
          if (page.waiting.length === 2) return page
        }
      })
      assert.isNotNull(first.next_cursor)
      const rest = yield* run(() =>
        all(bowline.waiting.list({ kind: "result", cursor: first.next_cursor ?? undefined }))
      )
      assert.lengthOf(rest, 1)
      assert.lengthOf(yield* run(() => all(bowline.waiting.list({ kind: "result", limit: 1 }))), 3)
      assert.deepStrictEqual(yield* run(() => all(bowline.waiting.list({ kind: "approval" }))), [])
      answer.resolve("red")
      yield* run(() => plan.result())
    })
  )
})
