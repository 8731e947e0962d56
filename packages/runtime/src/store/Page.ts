/** A page of a list. `next` leads to the one behind it, and is null at the end. */
export interface Page<out A> {
  readonly items: ReadonlyArray<A>
  readonly next: number | null
}

/** `cursor` is the `next` of the page before. */
export interface PageRequest {
  readonly limit: number
  readonly cursor?: number
}
