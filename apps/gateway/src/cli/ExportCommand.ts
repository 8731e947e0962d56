import { redact } from "@bowline/runtime/unstable/record/PlanExport"
import { Effect, Option, Redacted, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { gunzipSync, gzipSync } from "node:zlib"
import * as ClientConfig from "./ClientConfig.ts"
import { failed, misconfigured, misused, reasonOf } from "./Ended.ts"
import { tell } from "./Output.ts"

const parameters = {
  plan: Argument.String("plan").pipe(Argument.withDescription("The id of the plan"), Argument.optional),
  where: Flag.String("where").pipe(
    Flag.withDescription("All plans that this query of GET /plans finds, such as 'feedback=negative&label=x'"),
    Flag.optional
  ),
  redact: Flag.Boolean("redact").pipe(
    Flag.withDescription("Take the texts out, and keep names, ids, numbers and lengths"),
    Flag.withDefault(false)
  ),
  files: Flag.Boolean("files").pipe(
    Flag.withDescription("Write the files of the plan, too, so that one that has looked at them can be run again"),
    Flag.withDefault(false)
  )
}

const decodeProblem = Schema.decodeUnknownOption(
  Schema.fromJsonString(
    Schema.Struct({
      code: Schema.String,
      detail: Schema.optionalKey(Schema.String),
      issues: Schema.optionalKey(Schema.Array(Schema.Struct({ path: Schema.String, message: Schema.String })))
    })
  )
)

/** Why the gateway does not give it, in one line. */
const refusalIn = (text: string, status: number): string =>
  Option.match(decodeProblem(text), {
    onNone: () => `The gateway answered ${status}`,
    onSome: ({ code, detail = "", issues }) =>
      `${code}: ${issues?.map(({ message, path }) => `${path}: ${message}`).join("; ") ?? detail}`
  })

const decodePage = Schema.decodeUnknownEffect(
  Schema.fromJsonString(
    Schema.Struct({
      plans: Schema.Array(Schema.Struct({ plan_id: Schema.String })),
      next_cursor: Schema.NullOr(Schema.String)
    })
  )
)

const answerOf = Effect.fnUntraced(function* (path: string) {
  const { apiKey, url } = yield* Effect.mapError(ClientConfig.fromProcess, ({ problems }) => misconfigured(problems))
  const http = yield* HttpClient.HttpClient
  const asked = HttpClientRequest.get(new URL(path, url), {
    headers: { accept: "application/json", ...(apiKey && { authorization: `Bearer ${Redacted.value(apiKey)}` }) }
  })
  const { body, status } = yield* http.execute(asked).pipe(
    Effect.flatMap((response) => Effect.map(response.arrayBuffer, (body) => ({ body, status: response.status }))),
    Effect.mapError((error) => failed(`Cannot reach ${url}: ${reasonOf(error)}. Name a gateway with BOWLINE_URL`))
  )
  return { bytes: Buffer.from(body), status }
})

const expectBytes = ({ bytes, status }: { readonly bytes: Buffer; readonly status: number }) =>
  status === 200 ? Effect.succeed(bytes) : failed(refusalIn(bytes.toString(), status))

const askGateway = (path: string) => Effect.flatMap(answerOf(path), expectBytes)

const print = (bytes: Uint8Array) =>
  Effect.callback<void>((resume) => void process.stdout.write(bytes, () => resume(Effect.void)))

const redacted = (bytes: Buffer): Buffer => {
  const lines = gunzipSync(bytes).toString().trimEnd().split("\n")
  return gzipSync(lines.map((line) => `${JSON.stringify(redact(JSON.parse(line)))}\n`).join(""))
}

/** The ids of all plans that a query finds, page by page. */
const findPlans = Effect.fnUntraced(function* (query: string) {
  const ids: Array<string> = []
  let cursor: string | null = null
  do {
    const search = new URLSearchParams(query)
    if (cursor !== null) search.set("cursor", cursor)
    const text = (yield* askGateway(`/plans?${search.toString()}`)).toString()
    const page = yield* Effect.mapError(decodePage(text), () => failed("What answers is not a gateway of this version"))
    ids.push(...page.plans.map(({ plan_id }) => plan_id))
    cursor = page.next_cursor
  } while (cursor !== null)
  return ids
})

const recordOf = (plan: string) => answerOf(`/plans/${encodeURIComponent(plan)}/export`)

/** What is on record of a plan, as the gateway gives it. */
export const exported = (plan: string) => Effect.flatMap(recordOf(plan), expectBytes)

/** The files that a record names, a line each. Those that are not there any more are named on stderr. */
const filesOf = Effect.fnUntraced(function* (record: Buffer) {
  const ids = new Set(
    Array.from(
      gunzipSync(record)
        .toString()
        .matchAll(/"file_id":"(file_[\w-]+)"/g),
      ([, id = ""]) => id
    )
  )
  const lines: Array<string> = []
  for (const id of ids) {
    const both = [yield* answerOf(`/files/${id}`), yield* answerOf(`/files/${id}/content`)]
    if (both.some(({ status }) => status === 404)) {
      yield* tell(`${id}: there is no such file any more, so that the record is without its bytes`)
      continue
    }
    const [facts = "", content = ""] = yield* Effect.forEach(both, expectBytes)
    const file: unknown = JSON.parse(facts.toString())
    lines.push(`${JSON.stringify(Object.assign({ type: "file" }, file, { data: content.toString("base64") }))}\n`)
  }
  return gzipSync(lines.join(""))
})

/** Writes what is on record of plans to stdout. The files of several plans, one behind the other, are one file. */
export const exportPlans = Command.make(
  "export",
  parameters,
  Effect.fnUntraced(function* ({ files, plan, redact: isRedacted, where }) {
    const named = Option.toArray(plan)
    if (named.length + Option.toArray(where).length !== 1) {
      return yield* misused("Expected the id of a plan, or --where")
    }
    if (files && isRedacted) {
      return yield* misused("Expected --files or --redact: files are texts, too")
    }
    if (process.stdout.isTTY) {
      return yield* misused("The record is compressed: write it to a file, such as > plan.bowline")
    }
    const ids = Option.isSome(where) ? yield* findPlans(where.value) : named
    if (ids.length === 0) yield* tell(`No plan is found by ${Option.getOrElse(where, () => "")}: the file has none`)
    for (const id of ids) {
      const answer = yield* recordOf(id)
      // One of many that is not kept any more keeps none of the others from being written.
      if (Option.isSome(where) && (answer.status === 404 || answer.status === 410)) {
        yield* tell(`${id}: left out: ${refusalIn(answer.bytes.toString(), answer.status)}`)
        continue
      }
      const bytes = yield* expectBytes(answer)
      yield* print(isRedacted ? redacted(bytes) : bytes)
      if (files) yield* print(yield* filesOf(bytes))
    }
  })
).pipe(
  Command.withDescription("Write all that is on record of a plan to stdout, as one file"),
  Command.provide(FetchHttpClient.layer)
)
