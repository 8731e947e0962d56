/** Replaces what Postgres rejects in a text, and peers and models do send: NUL, and half of a surrogate pair. */
export const storable = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD")
