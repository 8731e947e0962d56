import type { Credential } from "@bowline/client"
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import * as GatewayClient from "./GatewayClient.ts"
import { printLine } from "./Output.ts"
import * as PageFlags from "./PageFlags.ts"
import * as TextTable from "./TextTable.ts"
import { toJson } from "./TerminalText.ts"

type Window = Credential["windows"][number]
type Row = Credential & { readonly window?: Window }

/** A line for each window, and one line for a credential without windows. */
const toRows = (credential: Credential): ReadonlyArray<Row> =>
  credential.windows.length === 0 ? [credential] : credential.windows.map((window) => ({ ...credential, window }))

const columns: ReadonlyArray<TextTable.Column<Row>> = [
  ["CREDENTIAL", ({ id }) => id],
  ["STATE", ({ state }) => state],
  ["LAST USED", ({ last_used_at }) => (last_used_at === null ? "never" : { at: last_used_at })],
  ["REASON", ({ window }) => window?.reason ?? ""],
  ["UNTIL", ({ window }) => (window === undefined ? "" : { at: window.until })],
  ["MODEL", ({ window }) => (window === undefined ? "" : (window.model ?? "every model"))]
]

const print = (credentials: ReadonlyArray<Credential>) =>
  TextTable.print(columns, credentials.flatMap(toRows), "No credentials")

const clear = Command.make(
  "clear",
  { id: Argument.String("id").pipe(Argument.withDescription("Such as openai-1")), json: PageFlags.json },
  ({ id, json }) =>
    GatewayClient.request((bowline, options) => bowline.credentials.clear(id, options)).pipe(
      Effect.flatMap((credential) => (json ? printLine(toJson(credential)) : print([credential])))
    )
).pipe(Command.withDescription("Reset a credential: all its windows end"))

/** Lists the credentials of a gateway's providers with their windows. */
export const credentials = Command.make("credentials", { json: PageFlags.json }, ({ json }) =>
  GatewayClient.request((bowline, options) => bowline.credentials.list().page(undefined, options)).pipe(
    Effect.flatMap((list) => (json ? printLine(toJson(list)) : print(list.credentials)))
  )
).pipe(Command.withDescription("List the credentials of a gateway's providers"), Command.withSubcommands([clear]))
