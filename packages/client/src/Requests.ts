import { BowlineError, errorOf, fromResponse, isForeign, isPassing, reasonOf, unexpected } from "./BowlineError.ts"
import type { AcceptedEntry, NewEntry } from "./InboxWire.ts"
import { type Clock, holdProcess, sleep, TimedOut, within } from "./Clock.ts"

/** What happens to a stream: for a line of a log, or for a sign that says that it is being picked up again. */
export type StreamEvent =
  | { readonly type: "connected"; readonly planId: string | undefined; readonly lastEventId: number }
  | {
      readonly type: "cut"
      readonly planId: string | undefined
      readonly lastEventId: number
      /** Why: its code is `ended`, `silence`, `reconnect`, `gap`, `network`, `timeout`, `unexpected_response`, or that of a refusal that may pass. */
      readonly error: BowlineError
      /** When the next attempt begins, in milliseconds from now. */
      readonly delayMs: number
    }

export interface BowlineOptions {
  /** Where the gateway is, such as `https://gateway.example`. In a page of the gateway's own it may be empty. */
  readonly baseUrl: string
  /** A key of the gateway, or what gets one. It is asked again when the gateway refuses the key. Without one a browser sends its cookies. */
  readonly apiKey?: string | (() => string | Promise<string>) | undefined
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Goes with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** How often a request that is no stream is repeated after a failure that may pass: 2. */
  readonly maxRetries?: number | undefined
  /** How long an answer may take to begin, in milliseconds: 10,000. */
  readonly connectTimeoutMs?: number | undefined
  /** A stream without a byte for so many milliseconds counts as cut: 30,000. */
  readonly silenceMs?: number | undefined
  /** How long a stream is asked for without one byte of it, in milliseconds: 900,000. Before the first answer of a gateway at most 30,000. */
  readonly giveUpAfterMs?: number | undefined
  readonly onEvent?: ((event: StreamEvent) => void) | undefined
}

/** How long to wait before the next attempt, in milliseconds; undefined if there is none. It begins anew for each outage. */
export type Backoff = () => number | undefined | Promise<number | undefined>

/** Full jitter, from half a second up to ten. */
export const fullJitter = (clock: Clock) => (): Backoff => {
  let failures = 0
  return () => clock.random() * Math.min(500 * 2 ** failures++, 10_000)
}

/** What a client of one gateway works with. */
export interface System {
  readonly options: BowlineOptions
  readonly clock: Clock
  readonly backoff: () => Backoff
}

export interface Request {
  /** `GET`, if not given. */
  readonly method?: string
  readonly path: string
  readonly query?: object | undefined
  readonly body?: object | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Goes out also when the page is left. Nobody waits for the answer. */
  readonly keepalive?: boolean
}

export interface Signal {
  readonly signal?: AbortSignal | undefined
}

/** How something is done once. */
export interface Keyed extends Signal {
  /** The caller's own name of the request: however often it is sent, it is done once. Made where it is not given. */
  readonly idempotencyKey?: string | undefined
}

export const randomKey = (): string => crypto.getRandomValues(new Uint32Array(4)).join("-")

/** What went wrong with a request that has no refusal. Runtimes do not agree on the class of these errors. */
export const toError = (error: unknown, isConnected = false): BowlineError => {
  if (error instanceof BowlineError) return error
  const code = error instanceof TimedOut ? (isConnected ? "silence" : "timeout") : "network"
  return errorOf(code, reasonOf(error), true, { cause: error })
}

/** Whether the same may succeed in a moment. */
export const mayPass = ({ code, retryable, status }: BowlineError): boolean =>
  status === undefined ? retryable && code !== "incomplete" : isPassing(status)

const toQuery = (query: object): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null) search.append(name, String(one))
    }
  }
  const text = String(search)
  return text && `?${text}`
}

/** `fetch` fails for a wrong URL, and for a header that cannot be one, as for a network that is away: that is not asked again. */
const toSendable = (url: string, init: RequestInit, body: object | undefined): RequestInit => {
  try {
    // Without a body its text is undefined.
    const whole = { ...init, body: JSON.stringify(body) }
    const sent = new globalThis.Request(url, whole).url
    if (/^https?:/.test(sent)) return whole
    throw new Error("baseUrl: expected http(s)")
  } catch (cause) {
    throw errorOf("invalid_request", `Cannot send the request: ${reasonOf(cause)}`, false, { cause })
  }
}

declare const location: { readonly origin: string } | undefined

export const pathOf = (kind: string, id: string, action = ""): string => `/${kind}/${encodeURIComponent(id)}${action}`

export const ignore = (): undefined => undefined

/** The value of JSON; undefined for what is none. */
export const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export type Requests = ReturnType<typeof makeRequests>

/** Sends requests to one gateway. */
export const makeRequests = ({ backoff, clock, options }: System) => {
  const { apiKey, headers: fixed, onEvent } = options
  const { connectTimeoutMs = 10_000, giveUpAfterMs = 900_000, maxRetries = 2, silenceMs = 30_000 } = options
  const settings = { connectTimeoutMs, giveUpAfterMs, maxRetries, silenceMs }
  const base = options.baseUrl.replace(/\/+$/, "")
  let key: Promise<string | undefined> | undefined
  /** Whether a gateway has answered, if only to refuse a request. */
  let isMet = false

  const askKey = async (): Promise<string | undefined> => {
    try {
      return typeof apiKey === "function" ? await apiKey() : apiKey
    } catch (cause) {
      throw errorOf("unauthorized", "There is no key", false, { cause })
    }
  }

  const fetchOnce = async (
    request: Request,
    signal: AbortSignal | null,
    bearer: string | undefined
  ): Promise<Response> => {
    const { body, keepalive = false, method = "GET", path, query = {} } = request
    const headers = {
      accept: "application/json",
      ...(body !== undefined && { "content-type": "application/json" }),
      ...fixed,
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
      ...request.headers
    }
    const url = base + path + toQuery(query)
    // A browser's cache lets one request for a URL wait for another one: two readers of a plan would hold each other up.
    const init = toSendable(url, { method, headers, cache: "no-store" }, body)
    return (options.fetch ?? fetch)(url, { ...init, signal, keepalive })
  }

  /** One answer that is no refusal. A refused key is asked for once more. */
  const send = async (request: Request, signal: AbortSignal | null): Promise<Response> => {
    for (let isRenewed = false; ; isRenewed = true) {
      const used = (key ??= askKey())
      const forget = (): void => {
        if (key === used) key = undefined
      }
      used.catch(forget)
      const response = await fetchOnce(request, signal, await used)
      if (response.ok) {
        isMet = true
        return response
      }
      // No gateway says so: what Chromium reads of a first line that broke.
      if (response.status < 200) throw new Error("The answer ended")
      const text = await response.text()
      if (response.status === 401) forget()
      if (response.status !== 401 || typeof apiKey !== "function" || isRenewed) {
        const error = fromResponse(response, parse(text), clock.now())
        if (!isForeign(error)) isMet = true
        throw error
      }
    }
  }

  /** A request for one JSON value, repeated where that may help. */
  const callOften = async <A>(request: Request, { signal }: Signal, limitMs: number): Promise<A> => {
    const life = signal ?? new AbortController().signal
    const next = backoff()
    for (let failures = 0; ; failures++) {
      life.throwIfAborted()
      const connection = new AbortController()
      const read = async (): Promise<A> => {
        const response = await send(request, connection.signal)
        const text = await response.text()
        const value = parse(text)
        if (value === undefined && response.status !== 204) {
          throw text === "" ? new Error("The answer ended") : unexpected("The answer is no JSON")
        }
        // The gateway's answers have the shapes of its API.
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion
        return value as A
      }
      let error: BowlineError
      try {
        return await within(clock, life, limitMs, read())
      } catch (cause) {
        life.throwIfAborted()
        error = toError(cause)
      } finally {
        connection.abort()
      }
      if (!mayPass(error) || failures >= settings.maxRetries) throw error
      const delay = error.retryAfterMs ?? (await next())
      if (delay === undefined || delay > settings.giveUpAfterMs) throw error
      await sleep(clock, life, delay)
    }
  }

  const call = <A>(request: Request, options: Signal = {}, limitMs = settings.connectTimeoutMs): Promise<A> => {
    const answer = callOften<A>(request, options, limitMs)
    return request.keepalive === true ? answer : holdProcess(answer)
  }

  const accept = (
    planId: string,
    body: NewEntry,
    { idempotencyKey = randomKey(), signal }: Keyed = {}
  ): Promise<AcceptedEntry> =>
    call(
      { method: "POST", path: pathOf("plans", planId, "/inbox"), body, headers: { "idempotency-key": idempotencyKey } },
      { signal }
    )

  /**
   * Why no gateway has ever answered. A browser that keeps its answers from pages of another origin (CORS) says no more than for a network that
   * is away: only a request whose answer nobody reads tells them apart.
   */
  const unreachable = async (cause: BowlineError, signal: AbortSignal): Promise<BowlineError> => {
    const url = new URL(new globalThis.Request(`${base}/health`).url)
    const page = typeof location === "object" ? location.origin : url.origin
    let why = cause.message
    if (page !== url.origin) {
      const probe = (options.fetch ?? fetch)(url, { mode: "no-cors", signal })
      await within(clock, signal, connectTimeoutMs, probe).then(
        () => (why = `CORS refuses pages of ${page}: add it to cors.origins`),
        ignore
      )
    }
    return errorOf("unreachable", `Cannot reach ${url.origin}: ${why}`, true, { cause })
  }

  const emit = (event: StreamEvent): void => {
    try {
      onEvent?.(event)
    } catch {
      // It only watches.
    }
  }

  return { accept, backoff, call, clock, emit, isMet: () => isMet, send, settings, unreachable }
}

/** How long a plan waits for its caller whose connection broke, in milliseconds. */
export const grace = 30_000
