import { Effect } from "effect"

/** A page at which a browser has stopped. */
export interface Page {
  readonly url: string
  readonly status: number
  readonly text: string
}

/** What a request is besides its URL. */
interface Init {
  readonly method?: string
  readonly body?: string | URLSearchParams
  readonly headers?: Readonly<Record<string, string>>
}

/** As much of a browser as a login takes: cookies by host, redirections, and the forms of the provider's own pages. `reach` says where a URL leads. */
export const makeBrowser = (reach: (url: string) => string = (url) => url) => {
  const jars = new Map<string, Map<string, string>>()
  const visited: Array<string> = []

  const request = async (url: string, init: Init = {}): Promise<Response> => {
    const { host } = new URL(url)
    const jar = jars.get(host) ?? new Map<string, string>()
    jars.set(host, jar)
    visited.push(url)
    const cookie = Array.from(jar, ([name, value]) => `${name}=${value}`).join("; ")
    const response = await fetch(reach(url), { ...init, redirect: "manual", headers: { cookie, ...init.headers } })
    for (const text of response.headers.getSetCookie()) {
      const [pair = "", ...attributes] = text.split("; ")
      const at = pair.indexOf("=")
      const [name, value] = [pair.slice(0, at), pair.slice(at + 1)]
      if (value === "" || attributes.some((one) => /^max-age=0$|^expires=thu, 01 jan 1970/i.test(one))) jar.delete(name)
      else jar.set(name, value)
    }
    return response
  }

  /** Goes where it is sent, and logs in as `login` where it is asked. */
  const follow = async (start: string, login: string, first: Init = {}): Promise<Page> => {
    let url = start
    let init: Init = first
    for (let left = 30; left > 0; left--) {
      const response = await request(url, init)
      const location = response.headers.get("location")
      if (response.status >= 300 && response.status < 400 && location !== null) {
        url = new URL(location, url).href
        init = {}
        continue
      }
      const text = await response.text()
      const [, action] = /<form[^>]* action="([^"]+)"/.exec(text) ?? []
      const fields = Object.fromEntries(
        Array.from(
          text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g),
          ([, name = "", value = ""]) => [name, value]
        )
      )
      if (action === undefined || new URL(url).pathname === "/") return { url, status: response.status, text }
      const body = new URLSearchParams({ ...fields, login, password: "any", logout: "yes" })
      url = new URL(action, url).href
      init = { method: "POST", body }
    }
    throw new Error(`It goes round: ${url}`)
  }

  return {
    visited,
    jars,
    get: (url: string, init?: Init) => Effect.promise(() => request(url, init)),
    follow: (url: string, login = "alice") => Effect.promise(() => follow(url, login))
  }
}
