import type { Waiting } from "@bowline/client"
import { WaitKind } from "@bowline/domain/plan/Inbox"
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import * as GatewayClient from "./GatewayClient.ts"
import * as PageFlags from "./PageFlags.ts"
import type * as TextTable from "./TextTable.ts"
import { toJson } from "./TerminalText.ts"

const columns: ReadonlyArray<TextTable.Column<Waiting>> = [
  ["PLAN", ({ plan_id }) => plan_id],
  ["TASK", ({ task_id }) => task_id],
  ["KIND", ({ kind }) => kind],
  ["TOOL", ({ tool }) => tool],
  ["SINCE", ({ since }) => ({ at: since })],
  ["EXPIRES", ({ expires_at }) => ({ at: expires_at })],
  ["WHAT", ({ input, message, why }) => `${why === "maybe_done" ? "may be done: " : ""}${message ?? toJson(input)}`]
]

/** Lists what waits for somebody. */
export const waiting = Command.make(
  "waiting",
  {
    kind: Flag.Literals("kind", WaitKind.literals).pipe(
      Flag.withDescription("Only what waits for that"),
      Flag.optional
    ),
    caller: Flag.String("caller").pipe(
      Flag.withDescription("Of the plans of this caller, or of all with *: for admins"),
      Flag.optional
    ),
    ...PageFlags.flags
  },
  ({ caller, cursor, json, kind, limit }) =>
    GatewayClient.request((bowline, options) =>
      bowline.waiting
        .list({ limit, kind: Option.getOrUndefined(kind), caller: Option.getOrUndefined(caller) })
        .page(Option.getOrUndefined(cursor), options)
    ).pipe(
      Effect.flatMap(({ next_cursor, waiting }) =>
        PageFlags.print({ name: "waiting", rows: waiting, next: next_cursor }, columns, json)
      )
    )
).pipe(Command.withDescription("List what waits for somebody, oldest first: bowline answer answers it"))
