import { Effect, Layer } from "effect"
import { Asker } from "../asking/Asker.ts"
import { CredentialPool } from "../asking/CredentialPool.ts"
import { Compaction } from "../compaction/Compaction.ts"
import type { GatewayId } from "../config/GatewayId.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import { Files } from "../file/Files.ts"
import { Inboxes } from "../planner/Inboxes.ts"
import type { Planner } from "../planner/Planner.ts"
import { McpClient } from "../remote/McpClient.ts"
import { PeerClient } from "../remote/PeerClient.ts"
import type { FileStore } from "../store/FileStore.ts"
import type { InboxStore } from "../store/InboxStore.ts"
import type { LeaseStore } from "../store/LeaseStore.ts"
import type { Notices } from "../store/Notices.ts"
import type { PlanStore } from "../store/PlanStore.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import type { TaskStore } from "../store/TaskStore.ts"
import { GroupCommit } from "../stream/GroupCommit.ts"
import { PlanFollower } from "../stream/PlanFollower.ts"
import { RemotePlans } from "../stream/RemotePlans.ts"
import { InputValidator } from "../tool/InputValidator.ts"
import * as Expiry from "./Expiry.ts"
import { Inbox } from "./Inbox.ts"
import { NewPlans } from "./NewPlans.ts"
import { PlanStreams } from "./PlanStreams.ts"
import * as Recovery from "./Recovery.ts"
import { RunningPlans } from "./RunningPlans.ts"
import { SessionCompaction } from "./SessionCompaction.ts"
import { Sessions } from "./Sessions.ts"

export type { FileStore, GatewayId, InboxStore, LeaseStore, Notices, PlanStore, SessionStore, TaskStore }

/** What plans leave open: the stores, the credential pool, the peers and the configuration. */
export type PlanNeeds =
  | CredentialPool
  | FileStore
  | GatewayId
  | InboxStore
  | LeaseStore
  | Notices
  | PeerClient
  | PlanStore
  | PlansConfig
  | SessionStore
  | TaskStore

/** The model that answers, and every other field of `PlansConfig` that is not to have its default. */
export type PlansOptions = Parameters<typeof PlansConfig.layer>[0]

/** What every plan runs with, and a planner finds. */
export type PlannerParts = Asker | Compaction | Files | GroupCommit | Inboxes | InputValidator | SessionLock

const layerParts = Layer.mergeAll(Compaction.layer, Files.layer, Inboxes.layer, InputValidator.layer).pipe(
  Layer.provideMerge(Asker.layer),
  Layer.provideMerge(Layer.merge(SessionLock.layer, GroupCommit.layer))
)

/** What runs plans: those that callers start, and those that dead processes leave. It leaves open what `PlanNeeds` says. */
export const layerOf = <E, R>(planner: Layer.Layer<Planner, E, R>) =>
  Layer.mergeAll(Recovery.layer, Expiry.layer, Expiry.layerWaits).pipe(
    Layer.provideMerge(NewPlans.layer),
    Layer.provideMerge(Layer.merge(Layer.provide(RunningPlans.layer, RemotePlans.layer), RemotePlans.layer)),
    Layer.provide(planner),
    Layer.provideMerge(layerParts)
  )

/** Follows plans by the services of this folder. */
const layerFollower = PlanFollower.layerOf(
  Effect.gen(function* () {
    const { isDraining } = yield* RunningPlans
    const { read } = yield* PlanStreams
    const { connect } = yield* RemotePlans
    return { isDraining: Effect.sync(isDraining), read, watch: connect }
  })
)

/** What callers get beside `Plans`. It stands on what runs them. */
export const layerServices = Layer.mergeAll(layerFollower, Sessions.layer, SessionCompaction.layer, Files.layer).pipe(
  Layer.provideMerge(PlanStreams.layer),
  Layer.provideMerge(Inbox.layer)
)

/** What plans leave open, in memory and without peers. It leaves open the `Provider`. */
export const layerMemory = (config: PlansOptions) =>
  Layer.mergeAll(
    MemoryStore.layer,
    PlansConfig.layer(config),
    PeerClient.layerNone,
    McpClient.layerNone,
    CredentialPool.layerProvider
  )
