import { Context, Option, type Redacted } from "effect"

/** 32 bytes that the secrets of running plans are encrypted with (operations.md, `BOWLINE_SECRET_KEY`). Without them no secret is kept. */
export const SecretKey = Context.Reference<Option.Option<Redacted.Redacted<Uint8Array>>>(
  "@bowline/runtime/store/SecretKey",
  { defaultValue: () => Option.none() }
)
