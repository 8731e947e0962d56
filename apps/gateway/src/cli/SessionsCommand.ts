import type { Session } from "@bowline/client"
import { Effect, Option } from "effect"
import { Command } from "effect/cli"
import * as GatewayClient from "./GatewayClient.ts"
import * as PageFlags from "./PageFlags.ts"
import type * as TextTable from "./TextTable.ts"

const columns: ReadonlyArray<TextTable.Column<Session>> = [
  ["SESSION", ({ external_session_id, session_id }) => external_session_id ?? session_id],
  ["LAST ACTIVE", ({ last_active_at }) => ({ at: last_active_at })],
  ["EXPIRES", ({ expires_at }) => ({ at: expires_at })],
  ["MESSAGES", ({ message_count }) => String(message_count)],
  ["AGENTS", ({ agents }) => agents.map(({ name }) => name).join(", ")]
]

/** Lists the caller's sessions. */
export const sessions = Command.make("sessions", PageFlags.flags, ({ json, ...page }) =>
  GatewayClient.request((bowline, options) =>
    bowline.sessions.list({ limit: page.limit }).page(Option.getOrUndefined(page.cursor), options)
  ).pipe(
    Effect.flatMap(({ next_cursor, sessions }) =>
      PageFlags.print({ name: "sessions", rows: sessions, next: next_cursor }, columns, json)
    )
  )
).pipe(Command.withDescription("List your sessions, newest first"))
