import { CallerName } from "@bowline/domain/caller/CallerName"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { Clock, Context, Duration, Effect, Layer, Option, Schema } from "effect"
import { ArrivedHost } from "../config/AskerFacts.ts"
import { newKey, sealForUrl, unseal } from "../store/Sealing.ts"
import { SecretKey } from "../store/SecretKey.ts"

/** How long a URL of a file is good for. */
const validFor = Duration.hours(1)

/** Where the gateway is: its public URL, and the host to which the request was sent. */
export const rootsOf = (root: string | undefined): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(ArrivedHost, (host) => [
    ...(root === undefined ? [] : [root]),
    ...(host === undefined ? [] : [`https://${host}`])
  ])

/** A URL without its scheme: a proxy may end TLS in front of the gateway. */
const placeOf = (url: string): string | undefined => {
  const { host, pathname, protocol, search } = URL.parse(url) ?? {}
  return protocol === "https:" || protocol === "http:" ? `${host}${pathname}${search}` : undefined
}

/** The file whose bytes this gateway has at the URL: under one of its own `roots`, with a token or without one. */
export const fileAt = (url: string, roots: ReadonlyArray<string>): FileId | undefined => {
  const place = placeOf(url) ?? ""
  for (const root of roots) {
    const prefix = placeOf(root)?.replace(/\/+$/, "")
    if (prefix === undefined || !place.startsWith(`${prefix}/files/`)) continue
    const [, id] = /^\/files\/(file_[0-9a-f-]{36})\/content(?:\?token=[\w-]+)?$/.exec(place.slice(prefix.length)) ?? []
    if (id !== undefined) return FileId.make(id)
  }
  return undefined
}

/** A file of a caller, and the endpoint of the agent or the server that may read it. */
export interface FileLink {
  readonly file: FileId
  readonly owner: CallerName
  readonly peer: string
}

const Claim = Schema.fromJsonString(Schema.Struct({ owner: CallerName, peer: Schema.String, until: Schema.Int }))
const decode = Schema.decodeOption(Claim)

const belonging = (file: string): string => `file_link ${file}`

/**
 * The URLs by which agents and MCP servers read files of callers: each has a token for one file, one reader and one hour, which only the gateway can read. Without a public URL there are none.
 */
export const FileLinks = Context.Reference<{
  /** The public URL, without a slash at its end. */
  readonly root: string | undefined
  /** Makes the URL of a file. Undefined where the gateway has no public URL. */
  readonly urlOf: ((link: FileLink) => Effect.Effect<string>) | undefined
  /** Whose file a token opens. None of a token that is of another file, too old, or not of this gateway. */
  readonly ownerOf: (file: string, token: string) => Effect.Effect<Option.Option<CallerName>>
}>("@bowline/runtime/file/FileLinks", {
  defaultValue: () => ({ root: undefined, urlOf: undefined, ownerOf: () => Effect.succeedNone })
})

/** Makes them under this URL. Without a `SecretKey` they are good as long as this process lives. */
export const layer = (publicUrl: string | undefined) =>
  Layer.effect(
    FileLinks,
    Effect.gen(function* () {
      if (publicUrl === undefined) return yield* FileLinks
      const key = Option.getOrElse(yield* SecretKey, newKey)
      const root = publicUrl.replace(/\/+$/, "")
      return {
        root,
        urlOf: ({ file, owner, peer }: FileLink) =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            const claim = JSON.stringify({ owner, peer, until: now + Duration.toMillis(validFor) })
            const token = sealForUrl(claim, belonging(file), key)
            return `${root}/files/${file}/content?token=${token}`
          }),
        ownerOf: (file: string, token: string) =>
          Effect.map(Clock.currentTimeMillis, (now) =>
            Option.flatMap(unseal(token, belonging(file), key), decode).pipe(
              Option.filter(({ until }) => now < until),
              Option.map(({ owner }) => owner)
            )
          )
      }
    })
  )
