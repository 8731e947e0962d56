import type { Spending } from "@bowline/client"
import { SpendingBy } from "@bowline/domain/unstable/plan/SpendingRow"
import { Effect, Option, Record } from "effect"
import { Command, Flag } from "effect/cli"
import * as GatewayClient from "./GatewayClient.ts"
import { printLine } from "./Output.ts"
import * as PageFlags from "./PageFlags.ts"
import * as TextTable from "./TextTable.ts"
import { toJson } from "./TerminalText.ts"

const flag = (name: string, description: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.optional)

const flags = {
  from: flag("from", "The first UTC day, such as 2026-01-02; 29 days before the last one, if not given"),
  to: flag("to", "The last UTC day, included; today, if not given"),
  caller: flag("caller", "Of this caller instead of everybody's: for admins"),
  by: Flag.Literals("by", SpendingBy.literals).pipe(
    Flag.withDescription("What to add up"),
    Flag.withDefault("day" as const)
  ),
  json: PageFlags.json
}

const columnsBy = (by: SpendingBy): ReadonlyArray<TextTable.Column<Spending>> => [
  [by.toUpperCase(), (row) => row[by] ?? "none"],
  ["PLANS", ({ plans }) => String(plans)],
  ["INPUT", ({ input_tokens }) => String(input_tokens)],
  ["CACHED", ({ cached_input_tokens }) => String(cached_input_tokens)],
  ["OUTPUT", ({ output_tokens }) => String(output_tokens)],
  ["COST USD", ({ cost_usd }) => (cost_usd === null ? "unknown" : String(cost_usd))]
]

/** Shows what plans have used. */
export const usage = Command.make("usage", flags, ({ by, json, ...given }) =>
  GatewayClient.request((bowline, options) =>
    bowline.usage({ by, ...Record.map(given, Option.getOrUndefined) }, options)
  ).pipe(
    Effect.flatMap((answer) =>
      json ? printLine(toJson(answer)) : TextTable.print(columnsBy(by), answer.rows, "No usage")
    )
  )
).pipe(
  Command.withDescription("Show what your plans have used and cost, or everybody's, by day, caller, model or preset")
)
