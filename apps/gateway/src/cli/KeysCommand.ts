import { BowlineError } from "@bowline/client/effect"
import { createKeys, type IssuedKey } from "@bowline/client/unstable/admin/Keys"
import { Effect, Option, Redacted } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as ClientConfig from "./ClientConfig.ts"
import { failed, misconfigured, reasonOf } from "./Ended.ts"
import { explain } from "./GatewayClient.ts"
import { printLine, tell } from "./Output.ts"
import * as PageFlags from "./PageFlags.ts"
import type * as TextTable from "./TextTable.ts"
import { toJson } from "./TerminalText.ts"

type Keys = ReturnType<typeof createKeys>

const request = Effect.fnUntraced(function* <A>(
  ask: (keys: Keys, options: { readonly signal: AbortSignal }) => Promise<A>
) {
  const { apiKey, url } = yield* Effect.mapError(ClientConfig.fromProcess, ({ problems }) => misconfigured(problems))
  const keys = createKeys({ baseUrl: url, apiKey: apiKey && Redacted.value(apiKey) })
  return yield* Effect.tryPromise({
    try: (signal) => ask(keys, { signal }),
    catch: (error) => (error instanceof BowlineError ? explain(url, error) : failed(reasonOf(error)))
  })
})

const timeOf = (time: string | null) => (time === null ? "never" : { at: time })

const columns: ReadonlyArray<TextTable.Column<IssuedKey>> = [
  ["KEY", ({ key_id }) => key_id],
  ["NAME", ({ name }) => name],
  ["ADMIN", ({ admin }) => (admin ? "yes" : "")],
  ["LAST USED", ({ last_used_at }) => timeOf(last_used_at)],
  ["EXPIRES", ({ expires_at }) => expires_at ?? "never"],
  ["CREATED", ({ created_at }) => ({ at: created_at })],
  ["BY", ({ created_by }) => created_by],
  ["NOTE", ({ note }) => note ?? ""]
]

const add = Command.make(
  "add",
  {
    name: Argument.String("name").pipe(Argument.withDescription("The caller: letters, digits, _ . @ -")),
    admin: Flag.Boolean("admin").pipe(Flag.withDescription("Its caller is an admin"), Flag.withDefault(false)),
    expires: Flag.String("expires").pipe(
      Flag.withDescription("How long it is good, such as 90d, or until when"),
      Flag.optional
    ),
    note: Flag.String("note").pipe(Flag.withDescription("What it is for"), Flag.optional),
    json: PageFlags.json
  },
  Effect.fnUntraced(function* ({ admin, expires, json, name, note }) {
    const given = { expires: Option.getOrUndefined(expires), note: Option.getOrUndefined(note) }
    const made = yield* request((keys, options) =>
      keys.add(
        {
          name,
          admin,
          ...(given.expires !== undefined && { expires: given.expires }),
          ...(given.note !== undefined && { note: given.note })
        },
        options
      )
    )
    if (json) return yield* printLine(toJson(made))
    yield* printLine(made.key)
    yield* tell(`${made.key_id} is the id of this key. The key is shown this once`)
  })
).pipe(Command.withDescription("Make a key for a caller, and print it"))

const list = Command.make("list", PageFlags.flags, ({ cursor, json, limit }) =>
  request((keys, options) => keys.list({ limit, cursor: Option.getOrUndefined(cursor) }, options)).pipe(
    Effect.flatMap(({ keys: rows, next_cursor }) =>
      PageFlags.print({ name: "keys", rows, next: next_cursor }, columns, json)
    )
  )
).pipe(Command.withDescription("List the keys that admins have made, newest first"))

const revoke = Command.make(
  "revoke",
  {
    id: Argument.String("id").pipe(Argument.withDescription("The id of the key, such as key_0199…")),
    endPlans: Flag.Boolean("end-plans").pipe(
      Flag.withDescription("End the plans that were started with it, too"),
      Flag.withDefault(false)
    )
  },
  ({ endPlans, id }) =>
    request((keys, { signal }) => keys.revoke(id, { endPlans, signal })).pipe(Effect.andThen(tell(`${id} is revoked`)))
).pipe(Command.withDescription("Revoke a key: no replica knows it any more"))

/** For admins: who may call the gateway, besides the callers of its configuration. */
export const keys = Command.make("keys").pipe(
  Command.withDescription("Make, list and revoke keys of callers"),
  Command.withSubcommands([add, list, revoke])
)
