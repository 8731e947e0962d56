import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, layer } from "@effect/vitest"
import { Effect, Latch } from "effect"
import { Cluster } from "../plan/Cluster.ts"
import { send } from "../http/RunningGateway.ts"
import { eventsOf, message, taskIn } from "./Requests.ts"

/** What a client has that follows the rules, behind what it had before. */
const textOf = (events: ReturnType<typeof eventsOf>, before = "") => {
  let text = before
  for (const { data } of events) {
    const { append, artifact } = (data["artifactUpdate"] ?? {}) as {
      readonly append?: boolean
      readonly artifact?: { readonly parts: ReadonlyArray<{ readonly text: string }> }
    }
    const said = artifact?.parts.map((part) => part.text).join("") ?? ""
    if (artifact !== undefined) text = append === true ? text + said : said
  }
  return text
}

/** The events of a stream up to the first one that says this. Then the client is still connected. */
const readUntil = (url: string, body: object, word: string) =>
  Effect.promise(async () => {
    const headers = { "content-type": "application/json" }
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ""
    while (!text.includes(word)) {
      const next = await reader?.read()
      if (next?.done !== false) throw new Error(`The stream has ended: ${text}`)
      text += next.value
    }
    return eventsOf(text.slice(0, text.lastIndexOf("\n\n") + 2))
  })

layer(Cluster.layer(2, { BOWLINE_LEASE_TTL: "1s" }), { excludeTestServices: true })("a task of a gateway", (it) => {
  it.effect("that is killed is followed at another one, without a gap or a repeat", () =>
    Effect.gen(function* () {
      const { answer, gateways } = yield* Cluster
      const [a, b] = gateways
      if (a === undefined || b === undefined) return assert.fail("There are two")
      const proceed = Latch.makeUnsafe(false)
      answer("kill me", () => [say("half "), say("and "), until(Effect.asVoid(proceed.await)), say("whole")])
      const before = yield* readUntil(`${a.url}/a2a/message:stream`, message({ parts: [{ text: "kill me" }] }), "and ")
      const { id } = taskIn(before)
      yield* a.kill("SIGKILL")
      const seen = before.findLast((event) => event.id !== undefined)?.id ?? ""
      yield* proceed.open
      const { text } = yield* send(`${b.url}/a2a/tasks/${id}:subscribe`, { headers: { "last-event-id": seen } })
      const after = eventsOf(text)
      const numbers = [...before, ...after].flatMap((event) => (event.id === undefined ? [] : [Number(event.id)]))
      assert.deepStrictEqual(
        numbers,
        [...new Set(numbers)].toSorted((a, b) => a - b)
      )
      assert.include(JSON.stringify(after.at(-1)), "TASK_STATE_COMPLETED")
      assert.strictEqual(textOf(after, textOf(before)), "half and whole")
      // Who never left has seen the same.
      const all = eventsOf(
        (yield* send(`${b.url}/a2a/tasks/${id}:subscribe`, { headers: { "last-event-id": String(numbers[0]) } })).text
      )
      assert.deepStrictEqual(
        all.flatMap((event) => (event.id === undefined ? [] : [Number(event.id)])),
        numbers.slice(1)
      )
      assert.strictEqual(textOf(all), "half and whole")
    })
  )
})
