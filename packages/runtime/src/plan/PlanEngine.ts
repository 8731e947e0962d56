import { Layer } from "effect"
import { Asker } from "../asking/Asker.ts"
import { Compaction } from "../compaction/Compaction.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { Inboxes } from "../planner/Inboxes.ts"
import type { Planner } from "../planner/Planner.ts"
import { GroupCommit } from "../stream/GroupCommit.ts"
import { RemotePlans } from "../stream/RemotePlans.ts"
import { InputValidator } from "../tool/InputValidator.ts"
import * as Expiry from "./Expiry.ts"
import { NewPlans } from "./NewPlans.ts"
import * as Recovery from "./Recovery.ts"
import { RunningPlans } from "./RunningPlans.ts"

/** What every plan runs with, and a planner finds. */
export type PlannerParts = Asker | Compaction | GroupCommit | Inboxes | InputValidator | SessionLock

const layerParts = Layer.mergeAll(Compaction.layer, Inboxes.layer, InputValidator.layer).pipe(
  Layer.provideMerge(Asker.layer),
  Layer.provideMerge(Layer.merge(SessionLock.layer, GroupCommit.layer))
)

/**
 * What runs plans: those that callers start, and those that dead processes leave. The services that callers use stand on it. It leaves open the stores, the credential pool, the peers and the
 * configuration.
 */
export const layerOf = <E, R>(planner: Layer.Layer<Planner, E, R>) =>
  Layer.mergeAll(Recovery.layer, Expiry.layer, Expiry.layerWaits).pipe(
    Layer.provideMerge(NewPlans.layer),
    Layer.provideMerge(Layer.merge(Layer.provide(RunningPlans.layer, RemotePlans.layer), RemotePlans.layer)),
    Layer.provide(planner),
    Layer.provideMerge(layerParts)
  )
