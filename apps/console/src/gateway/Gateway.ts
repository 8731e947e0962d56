import { BowlineError, createBowline } from "@bowline/client"
import { signal } from "@preact/signals"
import { learnTime } from "./GatewayClock.ts"

/** Whether the gateway wants a key before it answers. */
export const signedOut = signal(false)

/** Grows whenever what is shown may be out of date: the tab is looked at again, the network is back, somebody has logged in. */
export const woken = signal(0)

const wake = () => {
  woken.value++
}

// The tabs of a browser have one login: they tell each other when it begins and when it ends.
const tabs = new BroadcastChannel("bowline-login")

const enter = () => {
  signedOut.value = false
  wake()
}

/** Nothing of what was shown stays in the tab. */
const leave = () => location.reload()

/** Notices that the tab is looked at again, and that another one has logged in or out. */
export const watchTab = (): void => {
  tabs.addEventListener("message", ({ data }) => (data === "in" ? enter() : leave()))
  addEventListener("focus", wake)
  addEventListener("online", wake)
  addEventListener("pageshow", wake)
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) wake()
  })
}

/** The page's own fetch. It learns from each answer what time it is at the gateway, and whether the login has expired. */
export const fetchOwn: typeof fetch = async (input, init) => {
  const askedAt = Date.now()
  const response = await fetch(input, init)
  learnTime(response.headers.get("date"), askedAt, Date.now())
  if (response.status === 401) signedOut.value = true
  return response
}

export const bowline = createBowline({ baseUrl: location.origin, fetch: fetchOwn })

/** A key under which the same request is sent once. */
export const randomKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16)).join("")

type Fields = { readonly [name: string]: unknown }

/** The fields of a value, if it has any. */
export const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {}

/** How long an answer may take, in milliseconds. */
const answersWithin = 30_000

/** Asks a route that the client has no method for. */
export const askJson = async (
  path: string,
  {
    body,
    method,
    signal
  }: { readonly method?: "DELETE" | "POST"; readonly body?: object; readonly signal?: AbortSignal } = {}
): Promise<Fields> => {
  const limit = AbortSignal.timeout(answersWithin)
  const response = await fetchOwn(path, {
    ...(method === undefined ? {} : { method }),
    signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    headers: { accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  // A proxy in front of the gateway may answer with a page.
  const answer = fieldsOf(await response.json().catch(() => ({})))
  if (response.ok) return answer
  const { detail } = answer
  throw new Error(typeof detail === "string" ? detail : `The gateway answered ${response.status}.`)
}

const session = (method: "POST" | "DELETE", body?: object) =>
  fetch("/console/session", {
    method,
    headers: { "content-type": "application/json", accept: "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })

/** Whether people can log in with an identity provider: the gateway would send the browser there. */
export const hasProvider = async (): Promise<boolean> => {
  try {
    const { type } = await fetch("/console/login", { method: "HEAD", redirect: "manual" })
    return type === "opaqueredirect"
  } catch {
    return false
  }
}

/** Logs in with a key, which the page does not keep. Answers with what went wrong, if anything did. */
export const logIn = async (key: string): Promise<string | undefined> => {
  try {
    const response = await session("POST", { key })
    if (response.ok) {
      // Browsers keep the cookie on https and on loopback addresses only.
      const { status } = await fetch("/console/config", { headers: { accept: "application/json" } })
      if (status === 401)
        return "Your browser did not keep the login. Open the console over https, or on a loopback address."
      enter()
      tabs.postMessage("in")
      return undefined
    }
    const wait = response.headers.get("retry-after")
    if (response.status === 429) return `Too many requests. Try again in ${wait ?? "60"} s.`
    return response.status === 401 ? "The gateway does not know this key." : `The gateway answered ${response.status}.`
  } catch {
    return "The gateway cannot be reached. Try again."
  }
}

export const logOut = async (): Promise<void> => {
  const ended = await session("DELETE").catch(() => undefined)
  const answer = ended?.status === 200 ? fieldsOf(await ended.json().catch(() => ({}))) : {}
  tabs.postMessage("out")
  const { end_session_url: url } = answer
  if (typeof url === "string" && /^https?:/.test(url)) location.assign(url)
  else leave()
}

/** What went wrong, in words. A refusal of a request names each wrong field. */
export const inWords = (error: unknown): string => {
  if (error instanceof BowlineError && ["network", "timeout", "unreachable"].includes(error.code)) {
    return "The gateway cannot be reached."
  }
  // What a browser says of a request that got no answer.
  if (error instanceof TypeError || (error instanceof DOMException && error.name === "TimeoutError")) {
    return "The gateway cannot be reached."
  }
  return error instanceof Error ? error.message : String(error)
}
