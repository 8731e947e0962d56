import { storeCases } from "@bowline/testing/unstable/store/StoreCases"
import { layer } from "@effect/vitest"
import { onEmbedded, onPostgres } from "./stores.ts"

// The pool and the timeouts of the client are on the real clock.
const options = { excludeTestServices: true }

layer(onPostgres, options)("the stores on Postgres", (it) => {
  for (const { title, test } of storeCases) it.effect(title, () => test)
})

layer(onEmbedded, options)("the stores on an embedded Postgres", (it) => {
  for (const { title, test } of storeCases) it.effect(title, () => test)
})
