import { Context, Option, type Redacted } from "effect"

/** The key of 32 bytes that encrypts the secrets of running plans (operations.md, `BOWLINE_SECRET_KEY`). Without it no secret is stored. */
export const SecretKey = Context.Reference<Option.Option<Redacted.Redacted<Uint8Array>>>(
  "@bowline/runtime/store/SecretKey",
  { defaultValue: () => Option.none() }
)
