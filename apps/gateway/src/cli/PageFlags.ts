import { Cursor } from "@bowline/protocol/unstable/api/PageQuery"
import { Effect, Option, Schema } from "effect"
import { Flag } from "effect/cli"
import { integer } from "../config/setting/SettingText.ts"
import { printLine, tell } from "./Output.ts"
import * as TextTable from "./TextTable.ts"
import { toJson } from "./TerminalText.ts"

export const json = Flag.Boolean("json").pipe(Flag.withDescription("Print one JSON document"), Flag.withDefault(false))

const decodeCursor = Schema.decodeUnknownOption(Cursor)
const isCursor = (text: string): boolean => Option.isSome(decodeCursor(text))

/** The flags of a command that lists. */
export const flags = {
  limit: Flag.String("limit").pipe(
    Flag.withDescription("Entries of a page: 1 to 200"),
    Flag.withSchema(integer(1, 200)),
    Flag.withDefault(50)
  ),
  cursor: Flag.String("cursor").pipe(
    Flag.withDescription("Where the page starts, as the page before says"),
    Flag.filter(isCursor, () => "Expected the next_cursor of a page"),
    Flag.optional
  ),
  json
}

/** Prints a page under the name of its list, as one JSON document or as a table, and says on stderr where the next one starts. */
export const print = Effect.fnUntraced(function* <Row>(
  page: { readonly name: string; readonly rows: ReadonlyArray<Row>; readonly next: string | null },
  columns: ReadonlyArray<TextTable.Column<Row>>,
  asJson: boolean
) {
  const next_cursor = page.next
  if (asJson) return yield* printLine(toJson({ [page.name]: page.rows, next_cursor }))
  yield* TextTable.print(columns, page.rows, `No ${page.name}`)
  if (next_cursor !== null) yield* tell(`There are more ${page.name}: --cursor ${next_cursor}`)
})
