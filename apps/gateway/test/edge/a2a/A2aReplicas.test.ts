import * as Host from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { until } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { say } from "@bowline/testing/provider/Turn"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Latch, Layer, Schedule } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { Cluster } from "../../plan/Cluster.ts"
import { post, send } from "../../http/RunningGateway.ts"
import { errorOf, eventsOf, message, rpc, taskIn } from "./Requests.ts"

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

/** An event as HTTP+JSON has it. */
const resultIn = ({ data }: ReturnType<typeof eventsOf>[number]) => ({
  id: undefined,
  data: (data["result"] ?? {}) as Readonly<Record<string, unknown>>
})

const schedule = Schedule.spaced("20 millis")

const cluster = Layer.unwrap(
  Effect.map(folderOf({ "gateway.json": JSON.stringify({ a2a: { push_notifications: true } }) }), (folder) =>
    Cluster.layer(4, {
      BOWLINE_LEASE_TTL: "1s",
      BOWLINE_SHUTDOWN_GRACE: "200ms",
      BOWLINE_CONFIG: join(folder, "gateway.json"),
      BOWLINE_SECRET_KEY: Buffer.alloc(32, 7).toString("base64")
    })
  )
)

/** One of the four, for the test that ends it, and the one that stays. */
const pair = (which: 1 | 2 | 3) =>
  Effect.map(Cluster, ({ answer, gateways }) => {
    const [stays, leaves] = [gateways[0], gateways[which]]
    return stays === undefined || leaves === undefined ? assert.fail("There are four") : { answer, leaves, stays }
  })

layer(cluster, { excludeTestServices: true })("a task of a gateway", (it) => {
  it.effect("that is killed is followed at another one, without a gap or a repeat", () =>
    Effect.gen(function* () {
      const { answer, leaves: a, stays: b } = yield* pair(1)
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

  it.effect("that is killed is told to the end to who wants to be notified, by another one", () =>
    Effect.gen(function* () {
      const { answer, leaves: a } = yield* pair(2)
      const proceed = Latch.makeUnsafe(false)
      answer("notify me", () => [say("half "), until(Effect.asVoid(proceed.await)), say("whole")])
      const network = yield* Network
      const { requests, url } = yield* network.serve(() => Effect.succeed(Host.text(200, "")))
      const authentication = { scheme: "Bearer", credentials: "the credentials" }
      yield* post(`${a.url}/a2a/message:send`, {
        ...message({ parts: [{ text: "notify me" }] }),
        configuration: { returnImmediately: true, taskPushNotificationConfig: { url: `${url}/hook`, authentication } }
      })
      yield* requests.awaitCount(1)
      yield* a.kill("SIGKILL")
      yield* proceed.open
      const isLast = ({ body }: Host.HostRequest) => body.includes("TASK_STATE_COMPLETED")
      const told = yield* Effect.repeat(requests.all, { until: (all) => all.some(isLast), schedule })
      assert.deepStrictEqual(
        new Set(told.map(({ headers }) => headers["authorization"])),
        new Set(["Bearer the credentials"])
      )
      // At least once and in order: what was told last before the kill may come again.
      const words = told.map(({ body }) => /TASK_STATE_\w+|half whole/.exec(body)?.[0])
      const order = ["TASK_STATE_WORKING", "half whole", "TASK_STATE_COMPLETED"]
      assert.deepStrictEqual([...new Set(words)], order)
      assert.deepStrictEqual(
        words,
        words.toSorted((one, other) => order.indexOf(one ?? "") - order.indexOf(other ?? ""))
      )
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.effect("that shuts down breaks its stream off with an error over JSON-RPC, and goes on at another one", () =>
    Effect.gen(function* () {
      const { answer, leaves, stays } = yield* pair(3)
      const proceed = Latch.makeUnsafe(false)
      const asked = yield* Deferred.make<void>()
      const wait = until(Effect.asVoid(Effect.andThen(Deferred.succeed(asked, undefined), proceed.await)))
      answer("leave me", () => [say("half "), wait, say("whole")])
      const sent = rpc("SendStreamingMessage", message({ parts: [{ text: "leave me" }] }))
      const reading = yield* Effect.forkChild(post(`${leaves.url}/a2a`, sent))
      yield* Deferred.await(asked)
      yield* leaves.signal("SIGTERM")
      const before = eventsOf((yield* Fiber.join(reading)).text)
      const { data, id } = before.at(-1) ?? assert.fail("It breaks off")
      assert.deepStrictEqual([data["jsonrpc"], data["id"], id], ["2.0", 1, undefined])
      const error = errorOf({ body: data })
      assert.strictEqual(error.code, -32603)
      assert.deepInclude(error.data?.[0]?.metadata, { code: "draining", retryable: "true" })
      yield* Effect.promise(() => leaves.ended)
      yield* proceed.open
      const task = taskIn(before.map(resultIn))
      const seen = before.findLast((event) => event.id !== undefined)?.id ?? ""
      const again = rpc("SubscribeToTask", { id: task.id })
      const { text } = yield* post(`${stays.url}/a2a`, again, { "last-event-id": seen })
      const results = [...before.slice(0, -1), ...eventsOf(text)].map(resultIn)
      assert.include(JSON.stringify(results.at(-1)), "TASK_STATE_COMPLETED")
      assert.strictEqual(textOf(results), "half whole")
    })
  )
})
