import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Latch } from "effect"
import { post } from "../http/RunningGateway.ts"
import { Cluster, settled } from "./Cluster.ts"
import { get, toFrames } from "./GatewayProcess.ts"

const onRealClock = { excludeTestServices: true }
const streamed = (key: string) => ({ "idempotency-key": key, accept: "text/event-stream" })

/** An answer that is read bit by bit. */
const open = Effect.fnUntraced(function* (url: string, body: object, headers: Readonly<Record<string, string>>) {
  const init = {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers }
  }
  const response = yield* Effect.promise(() => fetch(url, init))
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  return {
    /** All that has come when this has, or all there is. */
    until: (mark?: string) =>
      Effect.promise(async () => {
        while (mark === undefined || !text.includes(mark)) {
          const next = await reader?.read()
          if (next?.value === undefined) break
          text += next.value
        }
        return text
      })
  }
})

layer(Cluster.layer(2), onRealClock)("an Idempotency-Key on two gateways", (it) => {
  it.effect("makes one plan of requests to both at once, and both get its stream", () =>
    Effect.gen(function* () {
      const { gateways } = yield* Cluster
      for (let round = 0; round < 10; round++) {
        const session = round % 2 === 0 ? {} : { session_id: `at once ${round}` }
        const answers = yield* Effect.forEach(
          [...gateways, ...gateways],
          ({ url }) => post(`${url}/plan`, { question: `at once ${round}`, ...session }, streamed(`at once ${round}`)),
          { concurrency: "unbounded" }
        )
        const [first] = answers
        assert.strictEqual(toFrames(first?.text ?? "").at(-1)?.event, "done")
        assert.deepStrictEqual(
          answers.map(({ status, text }) => [status, text]),
          answers.map(() => [200, first?.text])
        )
      }
      const { plans } = yield* get(gateways[0]?.url ?? "", "/plans?limit=200")
      assert.lengthOf(plans as ReadonlyArray<unknown>, 10)
    })
  )

  it.effect("joins a plan that runs on the other one as its reader, and gets its stream, and later its object", () =>
    Effect.gen(function* () {
      const { gateways, answer } = yield* Cluster
      const [one, other] = gateways.map(({ url }) => url)
      const [asked, more, last] = [Latch.makeUnsafe(false), Latch.makeUnsafe(false), Latch.makeUnsafe(false)]
      const question = "joined elsewhere"
      answer(question, () => [
        say("one"),
        until(Effect.andThen(asked.open, more.await)),
        say("two"),
        until(Effect.asVoid(last.await)),
        say("three")
      ])
      const first = yield* Effect.forkChild(post(`${one}/plan`, { question }, streamed(question)))
      yield* asked.await
      const joined = yield* open(`${other}/plan`, { question }, streamed(question))
      const conflict = yield* post(`${other}/plan`, { question: "another" }, streamed(question))
      assert.strictEqual(conflict.status, 409)
      yield* more.open
      // It has been told of it: the first gateway knows that it reads.
      yield* joined.until("two")
      yield* Fiber.interrupt(first)
      // By then the first one knows that its own reader has left.
      yield* get(one ?? "", "/health")
      yield* last.open
      const text = yield* joined.until()
      const frames = toFrames(text)
      assert.deepStrictEqual(
        frames.slice(-2).map(({ event }) => event),
        ["final", "done"]
      )
      const { plan_id } = yield* settled(other ?? "", frames[0]?.data["plan_id"])
      for (const url of [one, other]) {
        assert.strictEqual((yield* post(`${url}/plan`, { question }, streamed(question))).text, text)
        const whole = yield* post(`${url}/plan`, { question }, { "idempotency-key": question })
        assert.deepInclude(whole.body, { plan_id, state: "completed" })
      }
    })
  )
})
