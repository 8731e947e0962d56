import { type Standing, standings } from "@bowline/runtime/unstable/store/TaskStore"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Result, Schema } from "effect"
import { HistoryLength } from "./SentMessage.ts"

const given = <S extends Schema.Constraint>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))
const word = given(Schema.String)

/** Which task, and how many messages of its history; without a number all. */
export const TaskParams = Schema.Struct({ id: Schema.NonEmptyString, historyLength: HistoryLength })

const firstMs = Date.parse("0001-01-01T00:00:00.000Z")
const lastMs = Date.parse("9999-12-31T23:59:59.999Z")

const stateName = (standing: Standing): string => `TASK_STATE_${standing.toUpperCase().replaceAll("-", "_")}`
const stateNames = ["TASK_STATE_UNSPECIFIED", ...standings.map(stateName)]

/** Whether Postgres can compare this time in ISO 8601: its years begin with 1, and those above 9999 are spelled another way. */
export const isStorableTime = (text: string): boolean => {
  const millis = Date.parse(text)
  return /^\d{4}-/.test(text) && millis >= firstMs && millis <= lastMs
}

const ListParams = Schema.Struct({
  contextId: word,
  status: given(Schema.Literals(stateNames)),
  pageSize: given(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 }))),
  pageToken: word,
  historyLength: HistoryLength,
  statusTimestampAfter: given(
    Schema.String.check(
      Schema.makeFilter(
        (text) => text === "" || isStorableTime(text) || "Expected a time in ISO 8601, of the years 0001 to 9999"
      )
    )
  ),
  includeArtifacts: given(Schema.Boolean)
})

/** Which tasks to list. */
export interface TaskQuery {
  readonly contextId?: string
  readonly standing?: Standing
  readonly pageSize: number
  readonly pageToken?: string
  readonly historyLength?: number
  /** ISO 8601 in UTC. */
  readonly since?: string
  readonly includesArtifacts: boolean
}

const decodeList = Schema.decodeUnknownResult(ListParams, { errors: "all" })

export const decodeTask = Schema.decodeUnknownResult(TaskParams, { errors: "all" })

export const decodeQuery = (params: unknown): Result.Result<TaskQuery, Schema.SchemaError> =>
  Result.map(decodeList(params), ({ contextId, historyLength, includeArtifacts, pageSize, pageToken, ...rest }) => {
    const standing = standings.find((standing) => stateName(standing) === rest.status)
    return {
      ...(contextId && { contextId }),
      ...(standing !== undefined && { standing }),
      pageSize: pageSize ?? 50,
      ...(pageToken && { pageToken }),
      ...(historyLength != null && { historyLength }),
      ...(rest.statusTimestampAfter && { since: fromMillis(Date.parse(rest.statusTimestampAfter)) }),
      includesArtifacts: includeArtifacts === true
    }
  })
