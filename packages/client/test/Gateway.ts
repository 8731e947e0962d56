import type { Clock } from "../src/Clock.ts"

/** Lets everything run that waits for no timer. */
export const settle = async (): Promise<void> => {
  for (let i = 0; i < 8; i++) await new Promise((resolve) => void setImmediate(resolve))
}

/** A clock that stands still between two calls of `advance`. */
export const makeClock = (random = 1) => {
  let now = 1_700_000_000_000
  const timers = new Set<{ readonly at: number; readonly run: () => void }>()
  const clock: Clock = {
    now: () => now,
    after: (ms, run) => {
      const timer = { at: now + ms, run }
      timers.add(timer)
      return () => void timers.delete(timer)
    },
    random: () => random
  }
  const advance = async (ms: number): Promise<void> => {
    const end = now + ms
    for (;;) {
      await settle()
      const [next] = [...timers].sort((a, b) => a.at - b.at)
      if (next === undefined || next.at > end) break
      timers.delete(next)
      now = next.at
      next.run()
    }
    now = end
    await settle()
  }
  return { clock, advance, timers }
}

export interface Asked {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: unknown
  readonly signal: AbortSignal
}

type Answer = Response | Promise<Response> | Error

/** A `fetch` that answers as it is told, one request after the other, and keeps what it was asked. */
export const makeGateway = () => {
  const asked: Array<Asked> = []
  const answers: Array<(asked: Asked) => Answer> = []
  const fetch: typeof globalThis.fetch = async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : input)
    const one: Asked = {
      method: init.method ?? "GET",
      path: url.pathname + url.search,
      headers: new Headers(init.headers),
      body: typeof init.body === "string" ? JSON.parse(init.body) : undefined,
      signal: init.signal ?? new AbortController().signal
    }
    asked.push(one)
    const answer = await answers.shift()?.(one)
    if (answer === undefined) return new Promise<Response>(() => {})
    if (answer instanceof Error) throw answer
    return answer
  }
  return {
    fetch,
    asked,
    /** What the next requests get. */
    answer: (...next: ReadonlyArray<Answer | ((asked: Asked) => Answer)>): void => {
      answers.push(...next.map((one) => (typeof one === "function" ? one : () => one)))
    }
  }
}

export const planId = "plan_00000000-0000-4000-8000-000000000001"
const ids = { plan_id: planId, session_id: "session_00000000-0000-4000-8000-000000000002" }

/** The text of a frame, stored `id` milliseconds behind the start of 2026. */
export const frame = (id: number, event: string, data: object = {}): string => {
  const at = new Date(Date.UTC(2026, 0, 1) + id).toISOString()
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify({ ...ids, at, ...data })}\n\n`
}

const usage = { input_tokens: 3, output_tokens: 2, cached_input_tokens: 0, reasoning_tokens: 0 }

export const final = (id: number, text: string): string =>
  frame(id, "final", { stop_reason: "stop", text, usage, steps: 1, tool_calls: 0, duration_ms: 5 })

/** A plan that answers with so many deltas: 5 frames more than that. */
export const answered = (...deltas: ReadonlyArray<string>): ReadonlyArray<string> => [
  frame(1, "session", { external_session_id: null, created: true }),
  frame(2, "plan", { model: "demo/model", deadline_at: "2026-01-01T01:00:00.000Z" }),
  frame(3, "step", { step: 1, attempt: 1 }),
  ...deltas.map((delta, i) => frame(4 + i, "text.delta", { step: 1, attempt: 1, delta })),
  final(4 + deltas.length, deltas.join("")),
  frame(5 + deltas.length, "done")
]

const encoder = new TextEncoder()

const sse = (body: ReadableStream<Uint8Array>): Response =>
  new Response(body, { headers: { "content-type": "text/event-stream", "x-request-id": "req_1" } })

/** A stream that gives these texts, and ends. */
export const stream = (...texts: ReadonlyArray<string>): Response =>
  sse(
    new ReadableStream({
      start: (controller) => {
        for (const text of texts) controller.enqueue(encoder.encode(text))
        controller.close()
      }
    })
  )

/** A stream that gives what it is told, and stays open. */
export const openStream = (...texts: ReadonlyArray<string>) => {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  let isCancelled = false
  const body = new ReadableStream<Uint8Array>({
    start: (given) => {
      controller = given
      for (const text of texts) given.enqueue(encoder.encode(text))
    },
    cancel: () => {
      isCancelled = true
    }
  })
  return {
    response: sse(body),
    send: (text: string) => controller?.enqueue(encoder.encode(text)),
    sendBytes: (bytes: Uint8Array) => controller?.enqueue(bytes),
    end: () => controller?.close(),
    fail: (error: Error) => controller?.error(error),
    isCancelled: () => isCancelled
  }
}

export const json = (value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(JSON.stringify(value), { status, headers: { "content-type": "application/json", ...headers } })

export const problem = (
  status: number,
  code: string,
  {
    headers = {},
    ...more
  }: { readonly headers?: Readonly<Record<string, string>>; readonly [key: string]: unknown } = {}
): Response =>
  new Response(
    JSON.stringify({
      type: `urn:bowline:problem:${code}`,
      title: code,
      detail: code,
      status,
      code,
      retryable: status >= 500,
      request_id: "req_9",
      ...more
    }),
    { status, headers: { "content-type": "application/problem+json", ...headers } }
  )
