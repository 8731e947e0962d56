import type { Credential } from "@bowline/domain/provider/Credential"
import { Console, Effect, Predicate } from "effect"
import { Argument, Command } from "effect/cli"
import * as Outbound from "../egress/Outbound.ts"
import { failed, reasonOf } from "./Ended.ts"
import * as GatewayClient from "./GatewayClient.ts"

const ask = Effect.fnUntraced(function* <A, E>(
  question: (client: GatewayClient.GatewayClient["client"]) => Effect.Effect<A, E>
) {
  const { url, client } = yield* GatewayClient.make
  return yield* Effect.mapError(question(client), (error) => {
    if (Predicate.isTagged(error, "HttpClientError")) {
      return failed(`Cannot reach ${url}: ${reasonOf(Predicate.hasProperty(error, "cause") ? error.cause : error)}`)
    }
    return Predicate.hasProperty(error, "code") && Predicate.hasProperty(error, "detail")
      ? failed(`${String(error.code)}: ${String(error.detail)}`)
      : failed(`What answers at ${url} is not a gateway of this version`)
  })
})

/** A table with a line for each window, and one line for a credential without windows. */
const table = (credentials: ReadonlyArray<Credential>): string => {
  const rows = credentials.flatMap(({ id, state, windows, last_used_at }) => {
    const used = last_used_at ?? "never"
    return windows.length === 0
      ? [[id, state, used, "", "", ""]]
      : windows.map(({ model, reason, until }) => [id, state, used, reason, model ?? "every model", until])
  })
  const all = [["CREDENTIAL", "STATE", "LAST USED", "REASON", "MODEL", "UNTIL"], ...rows]
  const widths = (all[0] ?? []).map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)))
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

const clear = Command.make("clear", { id: Argument.String("id") }, ({ id }) =>
  ask((client) => client.credentials.clear({ params: { id } })).pipe(
    Effect.flatMap((credential) => Console.log(table([credential])))
  )
).pipe(Command.withDescription("Reset a credential: all its windows end"))

/** Lists the credentials of a gateway's providers with their windows. */
export const credentials = Command.make("credentials", {}, () =>
  ask((client) => client.credentials.list()).pipe(Effect.flatMap(({ credentials }) => Console.log(table(credentials))))
).pipe(
  Command.withDescription("List the credentials of a gateway's providers"),
  Command.withSubcommands([clear]),
  Command.provide(Outbound.layer)
)
