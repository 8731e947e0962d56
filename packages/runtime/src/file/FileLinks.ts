import { CallerName } from "@bowline/domain/caller/CallerName"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { Clock, Context, Duration, Effect, Layer, Option, Schema } from "effect"
import { newKey, sealForUrl, unseal } from "../store/Sealing.ts"
import { SecretKey } from "../store/SecretKey.ts"

/** How long a URL of a file is good for. */
const validFor = Duration.hours(1)

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
  /** Makes the URL of a file. Undefined where the gateway has no public URL. */
  readonly urlOf: ((link: FileLink) => Effect.Effect<string>) | undefined
  /** Whose file a token opens. None of a token that is of another file, too old, or not of this gateway. */
  readonly ownerOf: (file: string, token: string) => Effect.Effect<Option.Option<CallerName>>
}>("@bowline/runtime/file/FileLinks", {
  defaultValue: () => ({ urlOf: undefined, ownerOf: () => Effect.succeedNone })
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
