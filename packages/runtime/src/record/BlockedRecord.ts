/** A window that keeps a plan from asking with a credential. Times are milliseconds; `leftMs` until the last window of the credential ends. */
export interface Binding {
  readonly credential: string
  readonly reason: string
  readonly since: number | null
  readonly until: number
  readonly leftMs: number
}

/**
 * A plan looked for a credential of the model, and found none, though it had not tried all of them: `binding` is what kept it from asking, if that was a window. Other plans decide that, too.
 * `look` counts the plan's looks since its last attempt began.
 */
export interface BlockedRecord {
  readonly type: "blocked"
  readonly model: string
  readonly look: number
  readonly binding?: Binding
}

/** What a plan finds as it looks for credentials: what its own attempts do not tell is recorded. */
export class Looks {
  readonly #record: (record: BlockedRecord) => void
  #count = 0

  constructor(record: (record: BlockedRecord) => void) {
    this.#record = record
  }

  /** An attempt begins. */
  attempted(): void {
    this.#count = 0
  }

  found(): void {
    this.#count++
  }

  foundNone(model: string, binding: Binding | undefined, isTried: boolean): void {
    this.#count++
    if (isTried) return
    this.#record({ type: "blocked", model, look: this.#count, ...(binding !== undefined && { binding }) })
  }
}
