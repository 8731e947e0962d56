export const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob", BOWLINE_MAX_BODY: "2KiB" }
export const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
export const ann = by("ann")

export const message = (fields: object = {}) => ({
  message: { messageId: "m", role: "ROLE_USER", parts: [{ text: "Hi" }], ...fields }
})
export const rpc = (method: string, params?: unknown, fields: object = {}) => ({
  jsonrpc: "2.0",
  id: 1,
  method,
  params,
  ...fields
})

interface ErrorShown {
  readonly code: number
  readonly status?: string
  readonly message: string
  readonly data?: ReadonlyArray<Detail>
  readonly details?: ReadonlyArray<Detail>
}
interface Detail {
  readonly "@type": string
  readonly reason?: string
  readonly domain?: string
  readonly metadata?: Readonly<Record<string, string>>
  readonly fieldViolations?: ReadonlyArray<{ readonly field: string; readonly description: string }>
}

export const errorOf = ({ body }: { readonly body: Readonly<Record<string, unknown>> }) => body["error"] as ErrorShown
export const fieldsOf = ({ data = [], details = data }: ErrorShown) =>
  details.flatMap(({ fieldViolations = [] }) => fieldViolations.map(({ field }) => field)).toSorted()

export const resultOf = ({ body }: { readonly body: Readonly<Record<string, unknown>> }) =>
  body["result"] as Readonly<Record<string, unknown>>

export const missing = "plan_00000000-0000-4000-8000-000000000000"

/** The task that a stream begins with. */
export const taskIn = ([first]: ReadonlyArray<{ readonly data: Readonly<Record<string, unknown>> }>) =>
  (first?.data["task"] ?? {}) as { readonly id: string; readonly status: { readonly state: string } }

/** The events of a stream, each with its id. */
export const eventsOf = (text: string) =>
  text
    .split("\n\n")
    .filter((event) => event.includes("data: "))
    .map((event) => ({
      id: /^id: (.*)$/m.exec(event)?.[1],
      data: JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? "{}") as Readonly<Record<string, unknown>>
    }))
