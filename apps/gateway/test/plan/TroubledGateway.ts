import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { until } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { Deferred, Effect, Latch, Stream } from "effect"
import { databases } from "./Databases.ts"
import { proxy } from "./DatabaseProxy.ts"
import { askForText, start } from "./GatewayProcess.ts"

/** A gateway whose database a test can put in trouble, and how others would reach that. Once it listens, each packet takes `delay` milliseconds. */
export const begin = Effect.fnUntraced(function* (
  script: Script,
  {
    environment = {},
    delay = 0
  }: { readonly environment?: Readonly<Record<string, string>>; readonly delay?: number } = {}
) {
  const network = yield* Network
  const provider = yield* network.serve(yield* ChatHost.make(script))
  const settings = {
    ...(yield* databases.postgres),
    OPENAI_BASE_URL: `${provider.url}/v1`,
    BOWLINE_MODEL: "openai/scripted",
    ...environment
  }
  const database = yield* proxy(settings.DATABASE_URL)
  const gateway = yield* start({ ...settings, DATABASE_URL: database.url })
  // Not before: to make the tables takes hundreds of packets.
  yield* database.slow(delay)
  return { gateway, database, settings }
}, Effect.provide(LoopbackNetwork.layer))

/** Where a script waits until the test lets it go on. */
export const gate = () => {
  const latch = Latch.makeUnsafe(false)
  return { open: latch.open, wait: until(Effect.asVoid(latch.await)) }
}

/** Asks, and goes on reading: the id of the plan, once it has said the word, and all that its reader gets. */
export const askAndRead = Effect.fnUntraced(function* (url: string, body: object, word: string) {
  const begun = yield* Deferred.make<string>()
  let text = ""
  const reading = yield* askForText(url, body).pipe(
    Stream.tap((piece) => {
      text += piece
      const id = /"plan_id":"([^"]+)"/.exec(text)?.[1]
      return id !== undefined && text.includes(word) ? Deferred.succeed(begun, id) : Effect.void
    }),
    Stream.mkString,
    Effect.forkChild
  )
  return { planId: yield* Deferred.await(begun), reading }
})
