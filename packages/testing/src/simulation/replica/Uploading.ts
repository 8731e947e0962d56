import { Effect, Stream } from "effect"
import { createHash } from "node:crypto"
import type { ObservedRequest, ObservedUpload } from "../scenario/Observed.ts"
import type { UploadAct } from "../scenario/Scenario.ts"
import type { Open, World } from "../world/World.ts"
import type { Cluster } from "./Cluster.ts"
import type { Replica } from "./Replica.ts"
import { Broken } from "./ReplicaClient.ts"

/** Two and a half of them are a chunk. */
const pieceBytes = 104_858

const piecesOf = (plan: string, { number, pieces }: UploadAct): ReadonlyArray<Buffer> =>
  Array.from({ length: pieces }, (_, index) => Buffer.from(`${plan} ${number} ${index} `.padEnd(pieceBytes, "~")))

/** Sends a file for the caller of a plan. Where the answer is lost it sends all of it again: the same bytes are the same file. */
export const upload = (
  { cluster, world }: { readonly cluster: Cluster; readonly world: World },
  plan: string,
  act: UploadAct,
  requested: (replica: Replica) => Open<ObservedRequest>
): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { cutAfter, lateMs = 0, number, pauseMs, replica: place } = act
    const pieces = piecesOf(plan, act)
    const sha256 = pieces.reduce((hash, piece) => hash.update(piece), createHash("sha256")).digest("hex")
    const isCut = cutAfter !== undefined
    const upload: Open<ObservedUpload> = { ...world.moment(), plan, sha256, isCut, file_id: undefined }
    world.uploads.push(upload)
    const last = pieces.at(-1)
    const paced = Stream.mapEffect(Stream.fromIterable(pieces), (piece) =>
      Effect.as(Effect.sleep(pauseMs + (piece === last ? lateMs : 0)), piece)
    )
    const content = isCut ? Stream.concat(Stream.take(paced, cutAfter), Stream.fail(new Broken())) : paced
    let isOver = false
    for (let tries = 0; tries < 3 && !isOver; tries++) {
      const replica = yield* cluster.awaitUp(place + tries)
      if (replica.client === undefined) continue
      const request = requested(replica)
      isOver = yield* Effect.match(replica.client.upload(content), {
        onFailure: (error) => {
          request.isRefused = true
          // Who is cut off does not come back.
          return isCut || (error._tag === "Refused" && !error.isPassing)
        },
        onSuccess: (file_id) => {
          upload.file_id = file_id
          return true
        }
      })
      if (replica.process.isAlive) request.ended = world.moment()
      world.tell("caller", plan, `${upload.file_id === undefined ? "has not stored" : "has stored"} file ${number}`)
      if (!isOver) yield* Effect.sleep(world.process.random.int(50, 1_000))
    }
  })
