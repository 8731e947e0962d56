import * as GatewayIdentity from "@bowline/a2a/identity/GatewayIdentity"
import { Option, type Redacted, Result } from "effect"
import { Base64, Hex } from "effect/encoding"
import { bytes32, matching, type Parse } from "./Setting.ts"

/** 32 bytes: 64 digits in hexadecimal, which is never 32 bytes in base64, or base64. */
export const parseSeed: Parse<Redacted.Redacted<Uint8Array>> = (text) =>
  bytes32(
    /^[\da-f]{64}$/i.test(text) ? Hex.decode(text) : Base64.decode(text),
    "Expected 32 bytes in base64, or in hex"
  )

/** What may stand in a DID, and what is written as `_at_` and `_` there. */
export const parseAuthor = matching(/^[\w.@-]{1,128}$/, "Expected 1..128 characters of A-Z a-z 0-9 . _ - @")
export const parseName = matching(/^[\w.-]{1,64}$/, "Expected 1..64 characters of A-Z a-z 0-9 . _ -")

interface Variables {
  readonly BOWLINE_DID_SEED: Redacted.Redacted<Uint8Array> | undefined
  readonly BOWLINE_DID_AUTHOR: string | undefined
  readonly BOWLINE_DID_NAME: string | undefined
}

/** Who the gateway is: all three variables, or none of them. */
export const fromValues = ({
  BOWLINE_DID_AUTHOR: author,
  BOWLINE_DID_NAME: name,
  BOWLINE_DID_SEED: seed
}: Variables): Result.Result<Option.Option<GatewayIdentity.Identity>, ReadonlyArray<string>> => {
  if (seed !== undefined && author !== undefined && name !== undefined) {
    return Result.succeed(Option.some(GatewayIdentity.fromSeed({ seed, author, name })))
  }
  const parts = { BOWLINE_DID_SEED: seed, BOWLINE_DID_AUTHOR: author, BOWLINE_DID_NAME: name }
  const missing = Object.entries(parts).filter(([, value]) => value === undefined)
  return missing.length === 3
    ? Result.succeedNone
    : Result.fail(
        missing.map(([variable]) => `${variable}: Expected with the other BOWLINE_DID_ variables, or none of them`)
      )
}
