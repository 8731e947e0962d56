import { Duration } from "effect"
import type { Act, Part } from "../Act.ts"

/** A message of a task, in the order of its history. Messages of the client keep their ids. */
export interface Said {
  readonly by: "user" | "agent"
  readonly messageId?: string
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

/** What a stream sends: the whole task, or a change of it. */
export type Told =
  | { readonly _tag: "Task" | "Status"; readonly scene: Scene }
  | {
      readonly _tag: "Artifact"
      readonly scene: Scene
      readonly parts: ReadonlyArray<Part>
      readonly append: boolean
      readonly lastChunk: boolean
    }

/** A change of a task, `at` milliseconds after its message came. */
export interface Moment {
  readonly at: number
  readonly told: Told
}

export const isOver = ({ state }: Scene): boolean => ["completed", "failed", "canceled", "rejected"].includes(state)

/** Whether a stream of the task ends here: the task is over, or it is the client's turn. */
export const isFinal = (scene: Scene): boolean =>
  isOver(scene) || ["input-required", "payment-required", "trust-verification-required"].includes(scene.state)

/** A new status message moves the one before it to the history. */
export const become = (scene: Scene, state: string, message?: Said): Scene => ({
  ...scene,
  state,
  message,
  said: scene.message === undefined ? scene.said : [...scene.said, scene.message]
})

/** A task after a question: a new one, or one that is continued. */
export const asked = (question: Said, before: Scene | undefined): Scene => {
  const scene = become(before ?? { state: "", message: undefined, artifacts: [], said: [] }, "submitted")
  return { ...scene, said: [...scene.said, question] }
}

const withArtifact = (artifacts: Scene["artifacts"], { append, parts }: Act & { readonly _tag: "Produce" }) =>
  append ? [...artifacts.slice(0, -1), [...(artifacts.at(-1) ?? []), ...parts]] : [...artifacts, parts]

const after = (scene: Scene, act: Act): Scene => {
  switch (act._tag) {
    case "Pass":
      return { ...scene, state: act.state ?? scene.state }
    case "Become":
      return become(scene, act.state, act.parts.length === 0 ? undefined : { ...act, by: "agent" })
    case "Produce":
      return { ...scene, artifacts: withArtifact(scene.artifacts, act) }
    case "Reply":
      return scene
  }
}

/** Everything that will happen to a task, in order. */
export const plot = (beginning: Scene, acts: ReadonlyArray<Act>): ReadonlyArray<Moment> => {
  const moments: Array<Moment> = []
  let scene = beginning
  let at = 0
  for (const [index, act] of acts.entries()) {
    const next = acts.slice(index + 1).find(({ _tag }) => _tag === "Produce")
    const lastChunk = next?._tag !== "Produce" || !next.append
    const isNothingNew = act._tag === "Reply" || (act._tag === "Pass" && (act.state ?? scene.state) === scene.state)
    scene = after(scene, act)
    const told: Told =
      act._tag === "Produce" ? { ...act, _tag: "Artifact", scene, lastChunk } : { _tag: "Status", scene }
    if (!isNothingNew) moments.push({ at, told })
    if (act._tag === "Pass") at += Duration.toMillis(act.duration)
  }
  return moments
}
