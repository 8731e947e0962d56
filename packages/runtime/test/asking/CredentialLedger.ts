import type { Credential } from "@bowline/domain/unstable/provider/Credential"
import type { Blame } from "./Fault.ts"

const minute = 60_000
const hour = 60 * minute

/** The windows of `spec/provider.md`: the first one, the next one if nothing succeeds in between, and so on. */
const ladders = {
  cooldown: [30_000, minute, 5 * minute],
  rejected: [10 * minute, 20 * minute, 40 * minute, 60 * minute],
  unpaid: [5 * hour, 10 * hour, 20 * hour, 24 * hour],
  absent: [5 * minute]
}

interface Window {
  readonly reason: string
  readonly since: number
  readonly until: number
  /** Whose attempt has opened it. */
  readonly plan: string
}

/** Everything of a provider is `*`. */
interface Scope {
  readonly credential: string
  readonly model: string
  count: number
  reason: string
  window: Window | undefined
}

/** One request, by which plan, with what. */
export interface Attempt {
  readonly plan: string
  readonly credential: string
  readonly model: string
}

/**
 * What is blocked, and what may be used, as somebody knows it who sees only the requests of the plans and their ends, and
 * has read the table of credentials.
 */
export class CredentialLedger {
  /** What must not have happened. */
  readonly violations: Array<string> = []
  readonly #ids: ReadonlyArray<string>
  readonly #scopes = new Map<string, Scope>()
  /** Of each plan the attempt behind which its step goes on. */
  readonly #goingOn = new Map<string, Attempt>()

  /** When a credential last succeeded. */
  readonly #good = new Map<string, number>()

  constructor(ids: ReadonlyArray<string>) {
    this.#ids = ids
  }

  /** A request leaves: with a credential that nothing binds, or, when a step goes on with its model and none is free, with any. */
  begins(attempt: Attempt, now: number): void {
    const last = this.#goingOn.get(attempt.plan)
    this.#goingOn.delete(attempt.plan)
    const window = this.#binding(attempt, now)
    if (window === undefined || (window.since === now && window.plan !== attempt.plan)) return
    const free = this.#ids.filter((credential) => this.#binding({ ...attempt, credential }, now) === undefined)
    if (free.length === 0 && last?.model === attempt.model) return
    const { reason, since, until } = window
    this.violations.push(
      `${attempt.plan} asks ${attempt.model} with ${attempt.credential} at ${now}, which is out for ${reason} from ${since} to ${until}, while there are [${free.join(", ")}]`
    )
  }

  /** A request has an answer; `goesOn` if its step may ask again all the same. */
  succeeds(attempt: Attempt, goesOn: boolean, now: number): void {
    const { credential, model, plan } = attempt
    this.#good.set(credential, now)
    for (const on of [model, "*"]) this.#scope(credential, on).count = 0
    if (goesOn) this.#goingOn.set(plan, attempt)
  }

  /** Whether the key of the credential has shown that it is good, a short time ago. */
  isTrusted(credential: string, now: number): boolean {
    return now - (this.#good.get(credential) ?? -Infinity) < 10 * minute
  }

  /** A request has failed for this reason, with what that puts aside. */
  fails(attempt: Attempt, reason: string, blame: Blame | undefined, now: number): void {
    this.#goingOn.set(attempt.plan, attempt)
    if (blame === undefined) return
    const credential = blame.of === "model" ? "*" : attempt.credential
    const scope = this.#scope(credential, blame.of === "credential" ? "*" : attempt.model)
    if (scope.window !== undefined && scope.window.until > now) return
    scope.count = scope.model !== "*" || scope.reason === reason ? scope.count + 1 : 1
    scope.reason = reason
    const ladder = typeof blame.for === "number" ? [blame.for] : ladders[blame.for]
    const duration = ladder[Math.min(scope.count, ladder.length) - 1] ?? 0
    scope.window = { reason, since: now, until: now + duration, plan: attempt.plan }
  }

  /** An operator has reset a credential, and with it the models of its provider. */
  cleared(credential: string): void {
    for (const scope of this.#scopes.values()) {
      if (scope.credential !== credential && scope.credential !== "*") continue
      scope.window = undefined
      scope.count = 0
    }
  }

  /** Nothing else is blocked than what is known here, for no other reason, and no longer or shorter. */
  check(shown: ReadonlyArray<Credential>, now: number): void {
    const told = shown.flatMap(({ id, windows }) =>
      windows.map(({ model, reason, until }) => `${id} ${model ?? "*"} ${reason} ${Date.parse(until)}`)
    )
    const known = this.#ids.flatMap((id) =>
      Array.from(this.#scopes.values()).flatMap(({ credential, model, window }) =>
        window !== undefined && window.until > now && (credential === id || credential === "*")
          ? [`${id} ${model} ${window.reason} ${window.until}`]
          : []
      )
    )
    const wrong = told.filter((line) => !known.includes(line))
    const missing = known.filter((line) => !told.includes(line))
    if (wrong.length > 0 || missing.length > 0) {
      this.violations.push(`At ${now} the pool shows [${wrong.join("; ")}], where there is [${missing.join("; ")}]`)
    }
  }

  #binding({ credential, model }: Pick<Attempt, "credential" | "model">, now: number): Window | undefined {
    const scopes = [this.#scope(credential, model), this.#scope(credential, "*"), this.#scope("*", model)]
    return scopes.map(({ window }) => window).find((window) => window !== undefined && window.until > now)
  }

  #scope(credential: string, model: string): Scope {
    const key = `${credential} ${model}`
    const scope = this.#scopes.get(key) ?? { credential, model, count: 0, reason: "", window: undefined }
    this.#scopes.set(key, scope)
    return scope
  }
}
