import { FileRefused } from "@bowline/domain/plan/Refusal"
import { Context, Data, type Duration, Effect, type Scope, Stream } from "effect"
import { HttpClient, type HttpClientError, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { FilesConfig } from "../config/FilesConfig.ts"
import { fromClient } from "../http/Exchange.ts"
import type { Upload } from "./Files.ts"

/** How long a file may take from its URL to the store. */
export const fetchTimeout: Duration.Input = "10 seconds"

/** Where files are moved to another host once, or to a signed URL, few hops do. */
const maxRedirects = 3

/** A file could not be fetched. The message names the host and no more of its URL, which may hold a token. */
export class FileUnfetched extends Data.TaggedError("FileUnfetched")<{ readonly message: string }> {}

/** What a URL has: whoever takes it in limits the time, and its size. */
export type Fetched = Pick<Upload<FileUnfetched | FileRefused>, "content" | "said">

const unfetched = (message: string) => Effect.fail(new FileUnfetched({ message }))

/** The URL of a file, if it may be fetched at all. */
const parse = (text: string, base?: string): URL | undefined => {
  const url = URL.parse(text, base)
  return url?.protocol === "https:" && url.username === "" && url.password === "" ? url : undefined
}

const isRedirect = ({ status }: HttpClientResponse.HttpClientResponse): boolean =>
  status === 307 || status === 308 || (status >= 301 && status <= 303)

/** The last folder of the path: most servers say no other name. */
const nameOf = ({ pathname }: URL): string => {
  const last = pathname.split("/").at(-1) ?? ""
  return new URLSearchParams(`name=${last.replaceAll("+", "%2B")}`).get("name") ?? ""
}

/**
 * Fetches files by their URLs: by https only, without credentials, and with 3 redirects at most, which may lead to other hosts. An app that brings none fetches nothing. The
 * client decides where it connects to: for URLs of callers it has to keep the egress rules on the address that it dials.
 */
export const FileFetch = Context.Reference<(url: string) => Fetched>("@bowline/runtime/file/FileFetch", {
  defaultValue: () => () => ({
    content: Stream.fail(new FileUnfetched({ message: "This gateway fetches no files" })),
    said: () => ({ name: undefined, type: "" })
  })
})

type Client = HttpClient.HttpClient.With<HttpClientError.HttpClientError, Scope.Scope>

/** The answer that has the file. Each redirect closes its own connection with the scope. */
const answerOf = Effect.fnUntraced(function* (client: Client, first: URL) {
  let url = first
  for (let redirects = 0; ; redirects++) {
    const { host } = url
    const headers = { accept: "*/*", "accept-encoding": "identity" }
    const response = yield* client.execute(HttpClientRequest.get(url.href, { headers })).pipe(
      Effect.catch((error) => {
        const { reason } = fromClient(error)
        const code = reason._tag === "unreachable" ? reason.code : undefined
        return unfetched(
          reason._tag === "egress_denied"
            ? reason.message
            : `The connection to ${host} failed${code === undefined ? "" : ` (${code})`}`
        )
      })
    )
    if (response.status === 200) return response
    if (!isRedirect(response)) return yield* unfetched(`${host} answered ${response.status}`)
    const next = parse(response.headers["location"] ?? "", url.href)
    if (next === undefined) return yield* unfetched(`${host} redirects to what is no https URL`)
    if (redirects === maxRedirects) return yield* unfetched(`${host} redirects once more, after ${maxRedirects} times`)
    url = next
  }
})

/** Fetches with this client. */
export const make = Effect.gen(function* () {
  const client = HttpClient.withScope(yield* HttpClient.HttpClient)
  const { maxFile } = yield* FilesConfig
  return (text: string): Fetched => {
    const url = parse(text)
    if (url === undefined) {
      const content = Stream.fromEffect(unfetched("Expected an https URL without a user and a password"))
      return { content, said: () => ({ name: undefined, type: "" }) }
    }
    let type = ""
    const open = Effect.gen(function* () {
      const { headers, stream } = yield* answerOf(client, url)
      const { "content-encoding": encoding = "identity", "content-length": length } = headers
      // What it would be without the compression only its end would tell.
      if (encoding !== "identity")
        return yield* unfetched(`${url.host} sends it compressed, which nobody has asked for`)
      if (Number(length) > maxFile) {
        return yield* new FileRefused({
          code: "payload_too_large",
          message: `A file may have ${maxFile} bytes at most`
        })
      }
      type = headers["content-type"] ?? ""
      return Stream.mapError(stream, () => new FileUnfetched({ message: `${url.host} did not send all of it` }))
    })
    return { content: Stream.unwrap(open), said: () => ({ name: nameOf(url), type }) }
  }
})
