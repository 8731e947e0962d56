import * as GatewayProcess from "@bowline/testing/unstable/GatewayProcess"
import { Effect, Schedule, Stream } from "effect"
import { join } from "node:path"
import * as KeptRecords from "./KeptRecords.ts"

/** The gateway from its sources. */
export const sources = join(import.meta.dirname, "../../bin/bowline.mjs")

/** The same, or its bundle: each process of `npm test` starts in a third of the time. */
export const bowline = process.env["BOWLINE_TEST_BUNDLE"] ?? sources

/** Tests ask as one caller what many would ask. */
const usual = {
  PATH: process.env["PATH"] ?? "",
  BOWLINE_PORT: "0",
  LOG_FORMAT: "json",
  BOWLINE_RATE_LIMIT: "1000000/1s"
}

/** A gateway of its own process, once it listens, with the lines that it logs. It is killed with the scope, if it still runs. */
export const start = (environment: Readonly<Record<string, string>>, program: string = bowline) => {
  const started = GatewayProcess.start(program, { ...usual, ...environment })
  const keys = environment["BOWLINE_API_KEYS"]?.split(",").map((key) => key.slice(key.indexOf("=") + 1)) ?? []
  return KeptRecords.all === undefined || environment["BOWLINE_DATA_DIR"] !== "memory:"
    ? started
    : Effect.tap(started, ({ url }) => Effect.addFinalizer(() => KeptRecords.ofProcess(url, keys)))
}

/** Waits until a gateway has logged something with these texts: a line may arrive behind the answer that tells the same. */
export const logged = ({ lines }: { readonly lines: ReadonlyArray<string> }, ...texts: ReadonlyArray<string>) =>
  Effect.sync(() => lines.some((line) => texts.every((text) => line.includes(text)))).pipe(
    Effect.repeat({ until: (isThere) => isThere, schedule: Schedule.spaced("20 millis") })
  )

export interface Frame {
  readonly id: number
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

const parse = (block: string): ReadonlyArray<Frame> => {
  const match = /^id: (\d+)\nevent: (.+)\ndata: (.+)$/.exec(block)
  if (match === null) return []
  const [, id, event = "", data = ""] = match
  return [{ id: Number(id), event, data: JSON.parse(data) as Frame["data"] }]
}

/** The frames of a text that is whole. */
export const toFrames = (text: string): ReadonlyArray<Frame> => text.split("\n\n").flatMap(parse)

/** Reads a stream for as long as somebody wants it: then the connection is closed. */
const texts = (request: (signal: AbortSignal) => Promise<Response>): Stream.Stream<string> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const controller = yield* Effect.acquireRelease(
        Effect.sync(() => new AbortController()),
        (controller) => Effect.sync(() => controller.abort())
      )
      const response = yield* Effect.promise(() => request(controller.signal))
      if (response.status !== 200 || response.body === null) {
        return yield* Effect.die(new Error(`${response.status}: ${yield* Effect.promise(() => response.text())}`))
      }
      const { body } = response
      return Stream.fromReadableStream({ evaluate: () => body, onError: (error) => error }).pipe(
        // A process that was killed takes its connections with it.
        Stream.catch(() => Stream.empty),
        Stream.decodeText
      )
    })
  )

/** Its server-sent events. */
const frames = (text: Stream.Stream<string>): Stream.Stream<Frame> =>
  Stream.suspend(() => {
    let rest = ""
    return Stream.flatMap(text, (chunk) => {
      const blocks = (rest + chunk).split("\n\n")
      rest = blocks.pop() ?? ""
      return Stream.fromArray(blocks.flatMap(parse))
    })
  })

const json = { "content-type": "application/json" }

/** What is sent, comments too. */
export const askForText = (url: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
  texts((signal) =>
    fetch(`${url}/plan`, { method: "POST", headers: { ...json, ...headers }, body: JSON.stringify(body), signal })
  )

export const ask = (url: string, body: object) => frames(askForText(url, body))

export const replay = (url: string, planId: string, after = 0) =>
  frames(texts((signal) => fetch(`${url}/plans/${planId}/events?after=${after}`, { signal })))

/** A JSON document, whatever the status. */
export const get = (url: string, path: string, body?: object) =>
  Effect.promise(async () => {
    const headers = { ...json, accept: "application/json" }
    const response = await fetch(
      `${url}${path}`,
      body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) }
    )
    return (await response.json()) as Record<string, unknown>
  })
