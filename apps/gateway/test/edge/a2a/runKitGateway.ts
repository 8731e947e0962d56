// The gateway as the protocol's public kit wants its subject, on the port of the first argument: see CONTRIBUTING.md.
import { runMain } from "@effect/platform-node/NodeRuntime"
import { Console, Effect } from "effect"
import { startForKit } from "./KitGateway.ts"

const [port = "9999"] = process.argv.slice(2)

runMain(
  startForKit(true, { BOWLINE_PORT: port }).pipe(
    Effect.flatMap(({ url }) => Console.log(`Run the kit against ${url}`)),
    Effect.andThen(Effect.never),
    Effect.scoped
  )
)
