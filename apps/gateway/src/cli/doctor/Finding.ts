import { Cause, Effect, Fiber, Predicate } from "effect"
import { reasonOf } from "../Ended.ts"

/** What a check has found: `warn` is worth a look, and with `fail` the gateway does not work, or not for long. */
export interface Finding {
  readonly check: string
  readonly state: "ok" | "warn" | "fail"
  readonly detail: string
  /** What to do about it. */
  readonly advice?: string
}

/** Looks at one thing and changes nothing. */
export interface Check {
  readonly name: string
  readonly find: Effect.Effect<ReadonlyArray<Omit<Finding, "check"> & { readonly check?: string }>, Error>
}

export const ok = (detail: string) => ({ state: "ok", detail }) as const
export const warn = (detail: string, advice: string) => ({ state: "warn", detail, advice }) as const
export const fail = (detail: string, advice: string) => ({ state: "fail", detail, advice }) as const

/** The first code in a chain of causes: of the system, of TLS or of Postgres. */
const codeOf = (error: unknown): string => {
  if (Predicate.hasProperty(error, "code") && Predicate.isString(error.code)) return error.code
  if (error instanceof AggregateError) return codeOf(error.errors[0])
  if (Predicate.hasProperty(error, "reason") && Predicate.isObject(error.reason)) return codeOf(error.reason)
  return Predicate.hasProperty(error, "cause") ? codeOf(error.cause) : ""
}

/** What to do about a code, by its beginning. */
const remedies: ReadonlyArray<readonly [code: RegExp, advice: string]> = [
  [/^ENOTFOUND$/, "The name does not resolve: correct it, or the name server of this machine"],
  [/^EAI_AGAIN$/, "The name server does not answer: check /etc/resolv.conf and the network"],
  [/^ECONNREFUSED$/, "Nothing listens there: start it, or correct host and port"],
  [
    /^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/,
    "No way there: check the network, its firewall and its routes"
  ],
  [
    /^(CERT_|ERR_TLS|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO)/,
    "The certificate is not trusted: renew it, or name its authority with NODE_EXTRA_CA_CERTS"
  ],
  [/^28/, "Correct the user and the password in the URL"],
  [/^3D000$/, "Create the database, or correct its name in the URL"],
  [/^53300$/, "Raise max_connections of the server, or run fewer replicas"],
  [/^42501$/, "Give the user its rights on the database"]
]

/** A failure to reach something, with the cause and what to do about it. It never shows the user and the password of a URL. */
export const unreachable = (
  what: string,
  error: unknown,
  advice = "Check that it runs and that this machine can reach it"
) => {
  const code = codeOf(error)
  const reason = reasonOf(Predicate.hasProperty(error, "reason") ? error.reason : error)
  return fail(`${what}: ${reason}`, remedies.find(([pattern]) => pattern.test(code))?.[1] ?? advice)
}

/** How long one check may take. */
const patience = "10 seconds"

/** Runs a check, for 10 s at most. What it still does then is abandoned: the process ends soon. */
export const run = Effect.fnUntraced(function* ({ find, name }: Check): Effect.fn.Return<ReadonlyArray<Finding>> {
  // Detached: a connection that does not answer is not closed in time either. It ends with the process.
  const running = yield* Effect.forkDetach(find)
  const late = fail(`No answer within ${patience}`, "Check that it runs and that this machine can reach it")
  const found = yield* Fiber.await(running).pipe(
    Effect.flatMap((exit) => exit),
    Effect.catchCause((cause) => Effect.succeed([unreachable("The check failed", Cause.squash(cause))])),
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed([late]) })
  )
  return found.map((finding) => ({ check: name, ...finding }))
})
