import { actsOf } from "@bowline/testing/unstable/planner/KitActs"
import * as ScriptedPlanner from "@bowline/testing/unstable/planner/ScriptedPlanner"
import { Plans } from "@bowline/runtime/plan/Plans"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { start } from "../../http/RunningGateway.ts"

/** Plans that do what the protocol's public kit wants of a message, and ask no model. */
const plans = Plans.layerOf(ScriptedPlanner.layer(actsOf))

/** The gateway as the public kit wants its subject. It notifies, if that is asked for. */
export const startForKit = Effect.fnUntraced(function* (
  hasPush: boolean,
  environment: Readonly<Record<string, string>> = {}
) {
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ a2a: { push_notifications: hasPush } }) })
  return yield* start([], { BOWLINE_CONFIG: join(folder, "gateway.json"), ...environment }, plans)
})
