import { Effect, Option, Result } from "effect"
import type { HttpClient } from "effect/http"
import type { Part, Task } from "../task/Task.ts"
import { lastWords } from "../task/Words.ts"
import * as DidResolver from "./DidResolver.ts"
import { isGood, signedText, type SignedText } from "./Signature.ts"

/** What a peer said, and the DID that must have signed it: the pinned one, else that of its card, if it has one. */
export interface Claim {
  readonly endpoint: string
  readonly did: string | null
  readonly parts: ReadonlyArray<Part>
}

/** Only `yes` is trusted. `why` goes into the message of `untrusted`, and quotes nothing of the answer. */
export type Verdict = { readonly verified: "yes" } | { readonly verified: "no" | "unsigned"; readonly why: string }

/** All that the result of a task shows: the last messages, and the artifacts. */
export const shownParts = (task: Task): ReadonlyArray<Part> =>
  [...lastWords(task), ...task.artifacts].flatMap(({ parts }) => parts)

const no = (did: string, why: string): Verdict => ({ verified: "no", why: `It is not verified as ${did}: ${why}` })

/** Whether every signature is good. A long answer has many, so other fibers run between two of them. */
const areGood = Effect.fnUntraced(function* (signed: ReadonlyArray<SignedText>, { keys }: DidResolver.ResolvedDid) {
  for (const text of signed) {
    if (!isGood(text, keys)) return false
    yield* Effect.yieldNow
  }
  return true
})

/**
 * Verifies what peers say by the signatures of the text parts (Ed25519, over their UTF-8 bytes). The verdict is `yes` only if
 * every part has a good signature; data and files cannot be signed. It is `no` where a signature is bad or its key is unknown,
 * and `unsigned` where some parts or all have no signature.
 */
export const make = Effect.fnUntraced(function* (client: HttpClient.HttpClient) {
  const resolver = yield* DidResolver.make(client)

  const check = Effect.fnUntraced(function* (
    endpoint: string,
    did: string,
    signed: ReadonlyArray<SignedText>
  ): Effect.fn.Return<boolean, string> {
    const known = yield* resolver.resolve(endpoint, did)
    if (yield* areGood(signed, known)) return true
    const renewed = yield* resolver.renew(endpoint, did, known)
    return renewed !== known && (yield* areGood(signed, renewed))
  })

  return {
    verify: Effect.fnUntraced(function* ({ did, endpoint, parts }: Claim): Effect.fn.Return<Verdict> {
      const signed = parts.flatMap((part) => Option.toArray(signedText(part)))
      if (signed.length === 0) return { verified: "unsigned", why: "It is not signed" }
      if (did === null) return { verified: "no", why: "Nobody can have signed it: the peer's card names no DID" }
      const good = yield* Effect.result(check(endpoint, did, signed))
      if (Result.isFailure(good)) return no(did, good.failure)
      if (!good.success) return no(did, "a signature is not that of its keys")
      if (signed.length < parts.length) return { verified: "unsigned", why: "A part of it is not signed" }
      return { verified: "yes" }
    })
  }
})

export type Verification = Effect.Success<ReturnType<typeof make>>
