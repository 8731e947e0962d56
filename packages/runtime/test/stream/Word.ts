import { Effect, Layer } from "effect"
import { Audience, type Notice, Notices } from "../../src/store/Notices.ts"

/** Notices of which the test decides whether they arrive, with all that was published. */
export const make = () => {
  const { subscribe, tell } = new Audience()
  const published: Array<Notice> = []
  let listening = true
  const layer = Layer.succeed(Notices, {
    publish: (notices) =>
      Effect.sync(() => {
        published.push(...notices)
        if (listening) notices.forEach(tell)
      }),
    subscribe,
    isListening: () => listening
  })
  const listen = (to: boolean) => {
    listening = to
    tell({ _tag: "ListeningChanged" })
  }
  return { layer, published, tell, listen }
}
