import { BowlineError } from "@bowline/client/effect"
import { type ConnectedAccount, createAccounts } from "@bowline/client/unstable/admin/OwnAccounts"
import { Effect, Redacted } from "effect"
import { Argument, Command } from "effect/cli"
import * as ClientConfig from "./ClientConfig.ts"
import { failed, misconfigured, reasonOf } from "./Ended.ts"
import { explain } from "./GatewayClient.ts"
import { tell } from "./Output.ts"
import * as PageFlags from "./PageFlags.ts"
import type * as TextTable from "./TextTable.ts"

type Accounts = ReturnType<typeof createAccounts>

const request = Effect.fnUntraced(function* <A>(
  ask: (accounts: Accounts, options: { readonly signal: AbortSignal }) => Promise<A>
) {
  const { apiKey, url } = yield* Effect.mapError(ClientConfig.fromProcess, ({ problems }) => misconfigured(problems))
  const accounts = createAccounts({ baseUrl: url, apiKey: apiKey && Redacted.value(apiKey) })
  return yield* Effect.tryPromise({
    try: (signal) => ask(accounts, { signal }),
    catch: (error) => (error instanceof BowlineError ? explain(url, error) : failed(reasonOf(error)))
  })
})

const columns: ReadonlyArray<TextTable.Column<ConnectedAccount>> = [
  ["NAME", ({ name }) => name],
  ["CONNECTED", ({ connected_at }) => ({ at: connected_at })],
  ["SCOPES", ({ scopes }) => scopes.join(" ")],
  ["EXPIRES", ({ expires_at }) => expires_at ?? ""]
]

const list = Command.make("list", { json: PageFlags.json }, ({ json }) =>
  request((accounts, options) => accounts.list(options)).pipe(
    Effect.flatMap(({ accounts: rows }) => PageFlags.print({ name: "accounts", rows, next: null }, columns, json))
  )
).pipe(Command.withDescription("List the accounts at which the gateway acts as you"))

const remove = Command.make(
  "remove",
  { name: Argument.String("name").pipe(Argument.withDescription("The name of the account, as list shows it")) },
  ({ name }) =>
    request((accounts, options) => accounts.remove(name, options)).pipe(Effect.andThen(tell(`${name} is removed`)))
).pipe(Command.withDescription("Take back what you have granted at an account"))

/** Where callers have let the gateway act as them. */
export const accounts = Command.make("accounts").pipe(
  Command.withDescription("The accounts at which the gateway acts as you"),
  Command.withSubcommands([list, remove])
)
