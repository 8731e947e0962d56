import type { Dialect } from "@bowline/domain/peer/Agent"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { Clock, Effect } from "effect"
import type { Server, ServerScript } from "./Server.ts"

/** The peer of the test kit: it stands for the others in all other tests, so it has to behave like them. */
export const serve = (dialect: Dialect) => (script: ServerScript) =>
  Effect.map(
    ScriptedPeer.serve({
      dialect,
      path: "/a2a",
      streams: script.streams,
      acts: ({ continues, message: { parts } }) =>
        script.acts({
          continues,
          parts: parts.map((part) => (part.kind === "text" ? part.text : part.kind === "data" ? part.data : part.file))
        })
    }).pipe(Effect.provideService(Clock.Clock, script.clock)),
    ({ cancelled, url }): Server => ({ url, dialect, cancelled })
  )
