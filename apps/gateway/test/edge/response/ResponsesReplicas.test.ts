import { stall } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { Cluster } from "../../plan/Cluster.ts"

type Event = OpenAI.Responses.ResponseStreamEvent

const responses = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }).responses

/** What a stream gives until it ends or breaks. */
const readOut = async (stream: AsyncIterable<Event>, see: (event: Event) => void = () => undefined) => {
  const events: Array<Event> = []
  try {
    for await (const event of stream) {
      events.push(event)
      see(event)
    }
  } catch {
    // The process at the other end has died.
  }
  return events
}

it.live(
  "a client of a gateway that is killed reads on at another one with starting_after, without a gap or a repeat",
  () =>
    Effect.gen(function* () {
      const { answer, gateways } = yield* Cluster
      const [first, second] = gateways
      if (first === undefined || second === undefined) return assert.fail()
      let asked = 0
      answer("?", () => (asked++ === 0 ? [say("one "), say("two "), stall] : [say("three "), say("four")]))

      const stream = yield* Effect.promise(() =>
        responses(first.url).create({ model: "bowline", input: "?", stream: true })
      )
      let elsewhere = Promise.resolve<ReadonlyArray<Event>>([])
      const seen = yield* Effect.promise(() =>
        readOut(stream, (event) => {
          if (event.type === "response.created") {
            // It reads at the other gateway all the time, and sees the plan change its process.
            elsewhere = responses(second.url)
              .retrieve(event.response.id, { stream: true })
              .then((stream) => readOut(stream))
          }
          if (event.type === "response.output_text.delta" && event.delta === "two ") process.kill(first.pid, "SIGKILL")
        })
      )
      const [created] = seen
      const id = created?.type === "response.created" ? created.response.id : assert.fail()
      const starting_after = seen.at(-1)?.sequence_number ?? assert.fail()
      const rest = yield* Effect.promise(async () =>
        readOut(await responses(second.url).retrieve(id, { stream: true, starting_after }))
      )

      const events = [...seen, ...rest]
      assert.deepStrictEqual(
        events.map(({ sequence_number }) => sequence_number),
        events.map((_, index) => index)
      )
      const last = events.at(-1)
      assert.strictEqual(last?.type, "response.completed")
      const replay = yield* Effect.promise(async () =>
        readOut(await responses(second.url).retrieve(id, { stream: true }))
      )
      assert.deepStrictEqual(events, replay)
      assert.deepStrictEqual(yield* Effect.promise(() => elsewhere), replay)
      const response = yield* Effect.promise(() => responses(second.url).retrieve(id))
      assert.deepInclude(response, { status: "completed", output_text: "three four", model: "bowline" })
      const types = rest.map(({ type }) => type)
      assert.include(types, "response.output_item.added")
    }).pipe(Effect.provide(Cluster.layer(2, { BOWLINE_LEASE_TTL: "1s" })))
)
