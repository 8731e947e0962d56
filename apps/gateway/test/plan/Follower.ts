import { Cause, Effect, Stream } from "effect"

/** A frame as it came, with the bytes of its data. */
export interface RawFrame {
  readonly seq: number
  readonly event: string
  readonly data: string
}

/** Somebody who reads a plan, wherever it can be read, until it is over. */
export interface Follower {
  readonly frames: Array<RawFrame>
  /** The requests that came to nothing, or to an end without `done`. */
  breaks: number
  /** What a gateway that lives refused to do for it. */
  readonly refusals: Array<string>
}

export const nobody = (): Follower => ({ frames: [], breaks: 0, refusals: [] })

const parse = (block: string): ReadonlyArray<RawFrame> => {
  const match = /^id: (\d+)\nevent: (.+)\ndata: (.+)$/.exec(block)
  if (match === null) return []
  const [, seq, event = "", data = ""] = match
  return [{ seq: Number(seq), event, data }]
}

/** Gives the status, once all that came has been taken; 0 if the connection broke in front of it. */
const read = Effect.fnUntraced(
  function* (url: string, init: RequestInit, take: (frame: RawFrame) => void) {
    const response = yield* Effect.tryPromise((signal) => fetch(url, { ...init, signal }))
    if (response.status !== 200) {
      const text = yield* Effect.tryPromise(() => response.text())
      return { status: response.status, text }
    }
    const { body } = response
    if (body === null) return { status: 200, text: "" }
    let rest = ""
    yield* Stream.fromReadableStream({ evaluate: () => body, onError: () => new Cause.UnknownError(undefined) }).pipe(
      Stream.decodeText,
      Stream.runForEach((chunk) =>
        Effect.sync(() => {
          const blocks = (rest + chunk).split("\n\n")
          rest = blocks.pop() ?? ""
          blocks.flatMap(parse).forEach(take)
        })
      )
    )
    return { status: 200, text: "" }
  },
  Effect.orElseSucceed(() => ({ status: 0, text: "" }))
)

const planOf = ({ data }: RawFrame): string => /"plan_id":"([^"]+)"/.exec(data)?.[1] ?? ""

/** The plan that it reads, once it knows. */
export const planId = ({ frames }: Follower): string | undefined => {
  const [first] = frames
  return first === undefined ? undefined : planOf(first)
}

const isOver = ({ frames }: Follower): boolean => frames.at(-1)?.event === "done"

/**
 * Follows a plan from the first frame to `done`, at the next living gateway whenever a connection breaks. `living` waits for
 * one. `first` is how it learns of the plan: it is not made again unless it `repeats`, so that the caller may never know.
 */
export const follow = Effect.fnUntraced(function* (
  follower: Follower,
  living: Effect.Effect<string>,
  first: { readonly url?: string; readonly path: string; readonly init: RequestInit; readonly repeats: boolean }
) {
  const take = (frame: RawFrame) => void follower.frames.push(frame)
  for (let url = first.url ?? (yield* living); ; url = yield* living) {
    const id = planId(follower)
    const { status, text } = yield* id === undefined
      ? read(`${url}${first.path}`, first.init, take)
      : read(`${url}/plans/${id}/events?after=${follower.frames.at(-1)?.seq ?? 0}`, {}, take)
    if (isOver(follower)) return
    follower.breaks++
    if (status >= 400 && status !== 503) follower.refusals.push(`${status} ${text}`)
    const isLost = planId(follower) === undefined && !first.repeats
    if (isLost || follower.refusals.length > 0) return
    yield* Effect.sleep("20 millis")
  }
})
