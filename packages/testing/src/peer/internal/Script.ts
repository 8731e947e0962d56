import { Duration } from "effect"
import type { Act, Part } from "../Act.ts"

/** A message of the peer's. */
export interface Said {
  readonly parts: ReadonlyArray<Part>
  readonly metadata?: { readonly [key: string]: unknown }
}

/** A task at one instant. */
export interface Scene {
  readonly state: string
  readonly message: Said | undefined
  readonly artifacts: ReadonlyArray<ReadonlyArray<Part>>
  /** What was said before `message`. */
  readonly said: ReadonlyArray<Said>
}

const accepted: Scene = { state: "submitted", message: undefined, artifacts: [], said: [] }

/** A new message of the status puts the last one into the history. */
export const become = (scene: Scene, state: string, message?: Said): Scene => ({
  ...scene,
  state,
  message,
  said: scene.message === undefined ? scene.said : [...scene.said, scene.message]
})

/** What has happened to a task after so many milliseconds. */
export const play = (acts: ReadonlyArray<Act>, elapsed: number): Scene => {
  let scene = accepted
  let left = elapsed
  for (const act of acts) {
    switch (act._tag) {
      case "Pass":
        if (act.state !== undefined) scene = { ...scene, state: act.state }
        left -= Duration.toMillis(act.duration)
        if (left < 0) return scene
        break
      case "Become":
        scene = become(scene, act.state, act.parts.length === 0 ? undefined : act)
        break
      case "Produce":
        scene = { ...scene, artifacts: [...scene.artifacts, act.parts] }
        break
      case "Reply":
        break
    }
  }
  return scene
}
