import { type Frame, initialView, reduce } from "@bowline/client"
import { signal } from "@preact/signals"

/** A view that frames are added to: a burst of them is shown once, with the next picture that the browser draws, and not while `isHeldBack`. */
export const makeDrawing = (isHeldBack: () => boolean) => {
  const view = signal(initialView)
  let pending: Array<Frame> = []
  let picture = 0
  let isStopped = false

  const draw = () => {
    picture = 0
    if (isHeldBack()) return later()
    const frames = pending
    pending = []
    view.value = frames.reduce(reduce, view.peek())
  }

  const later = () => {
    if (picture === 0 && !isStopped) picture = requestAnimationFrame(draw)
  }

  return {
    view,
    add: (frame: Frame) => {
      pending.push(frame)
      later()
    },
    /** The number of the last frame that has come, shown or not. */
    lastId: (): number => pending.at(-1)?.id ?? view.peek().lastId,
    stop: () => {
      isStopped = true
      cancelAnimationFrame(picture)
    }
  }
}
