/** Postgres keeps no NUL in a text, and half a surrogate pair is not UTF-8: what a peer or a model names may hold both. */
export const storable = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD")
