import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Effect, Layer } from "effect"
import { Asker } from "../asking/Asker.ts"
import { Compaction } from "../compaction/Compaction.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { ConfiguredServers } from "../mcp/ConfiguredServers.ts"
import { McpClient } from "../mcp/McpClient.ts"
import { PeerClient } from "../peer/PeerClient.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { InputValidator } from "../tool/InputValidator.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import { ApprovalDecisions } from "./ApprovalDecisions.ts"
import * as CallApproval from "./CallApproval.ts"
import * as Conversation from "./Conversation.ts"
import type { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"
import * as Step from "./Step.ts"
import { type PlanAnswer, StepLoop } from "./StepLoop.ts"

/** Runs the loop of plans. */
export class Planner extends Context.Service<
  Planner,
  {
    /** The session is held. Gives the answer, or why there is none; interrupted, it leaves the run for `settle`. */
    readonly run: (run: PlanRun) => Effect.Effect<PlanAnswer, ProviderError | PlannerError | StorageError>
  }
>()("@bowline/runtime/planner/Planner") {
  static readonly layer = Layer.effect(
    Planner,
    Effect.gen(function* () {
      const config = yield* PlansConfig
      const asker = yield* Asker
      const validator = yield* InputValidator
      const approve = CallApproval.make({ rules: config.approvals, decisions: yield* ApprovalDecisions })
      const parts: Conversation.Parts = {
        asker,
        config,
        sessions: yield* SessionStore,
        peers: yield* PeerClient,
        mcp: yield* McpClient,
        configured: (yield* ConfiguredServers).servers,
        validator,
        local: yield* LocalTools,
        compaction: yield* Compaction
      }
      const services = { config, validator, askStep: Step.make(asker), approve }

      return {
        run: (run) =>
          Conversation.begin(parts, run).pipe(
            Effect.flatMap((conversation) => new StepLoop(services, run, conversation).run()),
            Effect.scoped
          )
      }
    })
  )
}
