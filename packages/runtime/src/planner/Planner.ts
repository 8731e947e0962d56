import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Duration, Effect, Layer } from "effect"
import { AccountGrants } from "../auth/AccountGrants.ts"
import { CallerTokens, OnBehalfOf } from "../auth/CallerTokens.ts"
import { Asker } from "../asking/Asker.ts"
import { Compaction } from "../compaction/Compaction.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { Permissions } from "../config/Permissions.ts"
import { FileLinks } from "../file/FileLinks.ts"
import { McpClient } from "../remote/McpClient.ts"
import { PeerClient } from "../remote/PeerClient.ts"
import { PlannerText } from "../prompt/PlannerText.ts"
import { Recipes } from "../prompt/Recipes.ts"
import * as Environment from "../record/Environment.ts"
import { InboxStore } from "../store/InboxStore.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { InputValidator } from "../tool/InputValidator.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as CallApproval from "./CallApproval.ts"
import { permitted } from "./CallPermission.ts"
import * as Conversation from "./Conversation.ts"
import * as DailyAllowance from "./DailyAllowance.ts"
import * as PlanFiles from "./PlanFiles.ts"
import type { PlannerError } from "./PlannerError.ts"
import type { PlanAnswer, PlanRun } from "./PlanRun.ts"
import * as Step from "./Step.ts"
import { type Services, StepLoop } from "./StepLoop.ts"

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
      const { lookAgain } = yield* CallerTokens
      const grants = yield* AccountGrants
      const validator = yield* InputValidator
      const permissions = yield* Permissions
      const approve = CallApproval.make({
        rules: config.approvals,
        inboxes: yield* InboxStore,
        store: yield* PlanStore,
        timeoutMs: Duration.toMillis(config.toolTimeout)
      })
      const parts: Conversation.Parts = {
        asker,
        inboxes: yield* InboxStore,
        config,
        permissions,
        sessions: yield* SessionStore,
        peers: yield* PeerClient,
        mcp: yield* McpClient,
        validator,
        local: yield* LocalTools,
        planner: yield* PlannerText,
        recipes: yield* Recipes,
        compaction: yield* Compaction,
        environment: Environment.make(config, yield* PlanStore, (yield* FileLinks).urlOf !== undefined),
        filesOf: yield* PlanFiles.make,
        store: yield* PlanStore,
        lookAgain
      }
      const services: Services = {
        config,
        allowance: DailyAllowance.make(config, yield* PlanStore),
        validator,
        store: yield* PlanStore,
        lookAgain,
        askStep: Step.make(asker),
        // An approval may take hours. Nobody has to approve what is on record.
        admit: (run, call) =>
          run.given.request.fork?.tools === "recorded"
            ? Effect.succeed(permitted(permissions, run.given, call))
            : Effect.map(approve(run, permitted(permissions, run.given, call)), (approved) =>
                permitted(permissions, run.given, approved)
              )
      }

      return {
        run: (run) =>
          Conversation.begin(parts, run).pipe(
            Effect.flatMap((conversation) => new StepLoop(services, run, conversation).run()),
            Effect.scoped,
            Effect.provideService(OnBehalfOf, run.given.caller),
            Effect.provideService(AccountGrants, grants)
          )
      }
    })
  )
}
