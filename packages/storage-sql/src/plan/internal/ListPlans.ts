import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanFilter, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import type { SqlClient, Statement } from "effect/sql"
import { storable } from "../../internal/Storable.ts"
import { reasonOf, summaryColumns, type SummaryRow } from "./PlanRow.ts"

/** The text of an entry in the document, which is looked for as it is. */
const toEntry = ([key, value]: readonly [string, string]): string => `${JSON.stringify(key)}:${JSON.stringify(value)}`

/** Such texts have no control characters: to JSON, quotes and backslashes are all that has to be escaped, as to Postgres. */
const toArray = (texts: ReadonlyArray<string>): string => `{${texts.map((text) => JSON.stringify(text)).join()}}`

/** The score that anybody has given to the plan `p` last; null where nobody has. */
const lastFeedback = "(select f.score from feedback f where f.plan_id = p.id order by f.ordinal desc limit 1)"

/** A text, as the pattern of JSON that was written without spaces. It ends before its quote does, never behind it. */
const someText = String.raw`"(?:[^"\\]|\\.)*"`
const patternOf = (text: string): string => JSON.stringify(text).replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`)
const someFields = String.raw`(?:${someText}:(?:${someText}|[^",{}\[\]]+),)*`

/** Postgres cannot read into a document that contains an escaped NUL: its text has to match all of these. */
const echoPatterns = ({ metadata = [], model, type }: NonNullable<PlanFilter["echo"]>): ReadonlyArray<string> => {
  const begins = String.raw`^\{"type":${patternOf(type)}[,}]`
  const field = (name: string, value: string) => String.raw`^\{${someFields}"${name}":${value}`
  return [
    begins,
    ...(model === undefined ? [] : [field("model", `${patternOf(model)}[,}]`)]),
    ...metadata.map(([key, value]) =>
      field("metadata", String.raw`\{${someFields}${patternOf(key)}:${patternOf(value)}[,}]`)
    )
  ]
}

const signs = { negative: "< 0", positive: "> 0", none: "is null" } as const

/** `strpos` needs no escape, as a pattern would. */
const passing = (sql: SqlClient.SqlClient, filter: PlanFilter, isBehind: Statement.Fragment) => {
  const {
    agent,
    behind,
    echo,
    error_code,
    feedback,
    key_id,
    label,
    metadata,
    model,
    q,
    reason,
    session,
    since,
    states,
    tool,
    until
  } = filter
  return [
    ...(session === undefined ? [] : [sql`p.session_id = ${session}`]),
    ...(states === undefined ? [] : [sql.in("p.state", states)]),
    ...(model === undefined ? [] : [sql`p.model = ${storable(model)}`]),
    ...(key_id === undefined ? [] : [sql`p.key_id = ${key_id}`]),
    ...(echo === undefined ? [] : echoPatterns(echo).map((pattern) => sql`p.echo::text ~ ${pattern}`)),
    ...(error_code === undefined ? [] : [sql`p.error_code = ${storable(error_code)}`]),
    ...(reason === undefined ? [] : [sql`p.error_code = 'aborted' and ${sql.literal(reasonOf)} = ${storable(reason)}`]),
    ...(since === undefined ? [] : [sql`p.created_at >= ${since}::timestamptz`]),
    ...(until === undefined ? [] : [sql`p.created_at < ${until}::timestamptz`]),
    ...(q === undefined ? [] : [sql`strpos(lower(p.question), lower(${storable(q)})) > 0`]),
    ...(tool === undefined
      ? []
      : [sql`exists (select from tasks t where t.plan_id = p.id and t.tool = ${storable(tool)})`]),
    ...(agent === undefined
      ? []
      : [sql`exists (select from tasks t where t.plan_id = p.id and t.agent = ${storable(agent)})`]),
    ...(metadata === undefined || metadata.length === 0
      ? []
      : [sql`bowline_entries(p.metadata) @> ${toArray(metadata.map(toEntry))}::text[]`]),
    ...(feedback === undefined ? [] : [sql`${sql.literal(lastFeedback)} ${sql.literal(signs[feedback])}`]),
    ...(label === undefined
      ? []
      : [
          sql`exists (
            select from feedback f where f.plan_id = p.id and ${storable(label)} = any(f.labels)
              and not exists (select from feedback l where l.plan_id = p.id and l.ordinal > f.ordinal)
          )`
        ]),
    ...(behind === undefined ? [] : [sql`p.ordinal ${isBehind} (select b.ordinal from plans b where b.id = ${behind})`])
  ]
}

/** The newest plans first, or the oldest ones, with one row more than the page has if it is not the last one. */
export const listPlans = (
  sql: SqlClient.SqlClient,
  owner: CallerName | undefined,
  filter: PlanFilter,
  { cursor, limit, oldestFirst = false }: Parameters<PlanStore["Service"]["list"]>[2]
) => {
  const isBehind = sql.literal(oldestFirst ? ">" : "<")
  return sql<SummaryRow & { readonly ordinal: bigint }>`
select ${sql.literal(summaryColumns)}, p.ordinal from plans p
where ${sql.and([
    sql`true`,
    ...(owner === undefined ? [] : [sql`p.owner = ${owner}`]),
    ...passing(sql, filter, isBehind),
    ...(cursor === undefined ? [] : [sql`p.ordinal ${isBehind} ${cursor}`])
  ])}
order by p.ordinal ${sql.literal(oldestFirst ? "asc" : "desc")} limit ${limit + 1}`
}
