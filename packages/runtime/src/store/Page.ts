/** A page of a list. `next` is the cursor of the following page, null on the last one. */
export interface Page<out A> {
  readonly items: ReadonlyArray<A>
  readonly next: number | null
}

/** Which page to read. `cursor` is the `next` of the previous page; the first page has none. */
export interface PageRequest {
  readonly limit: number
  readonly cursor?: number
}
