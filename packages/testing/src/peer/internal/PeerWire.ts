import type { Part } from "../Act.ts"
import type { Scene, Told } from "./Scene.ts"
import type { PeerTask } from "./TaskBook.ts"

/** How a dialect writes the results of its methods. */
export interface PeerWire {
  readonly task: (task: PeerTask, scene: Scene) => object
  readonly sentTask: (task: PeerTask, scene: Scene) => object
  readonly sentMessage: (task: PeerTask, parts: ReadonlyArray<Part>) => object
  readonly told: (task: PeerTask, told: Told) => object
}
