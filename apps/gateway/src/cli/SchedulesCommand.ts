import type { Bowline, Firing, NewSchedule, Schedule } from "@bowline/client"
import { CatchUp, Overlap } from "@bowline/domain/unstable/schedule/Schedule"
import { Duration, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { duration } from "../config/setting/SettingText.ts"
import { Ended, exitCodes, failed } from "./Ended.ts"
import * as GatewayClient from "./GatewayClient.ts"
import { printLine, tell } from "./Output.ts"
import * as PageFlags from "./PageFlags.ts"
import * as TextTable from "./TextTable.ts"
import { toJson } from "./TerminalText.ts"

const whenOf = ({ when }: Pick<Schedule, "when">): string => {
  if ("cron" in when) return `${when.cron} ${when.time_zone}`
  return "at" in when ? `at ${when.at}` : `every ${Duration.format(Duration.millis(when.every_ms))}`
}

const stateOf = ({ failures, next_at, paused }: Schedule): string => {
  const state = paused ? "paused" : next_at === null ? "over" : "active"
  return failures === 0 ? state : `${state}, ${failures} refused`
}

const timeOf = (at: string | null) => (at === null ? "" : { at })

const columns: ReadonlyArray<TextTable.Column<Schedule>> = [
  ["SCHEDULE", ({ name }) => name],
  ["STATE", stateOf],
  ["NEXT", ({ next_at }) => timeOf(next_at)],
  ["LAST", ({ last_at }) => timeOf(last_at)],
  ["WHEN", whenOf],
  ["LAST PLAN", ({ last_plan_id }) => last_plan_id ?? ""],
  ["ID", ({ schedule_id }) => schedule_id]
]

const firingColumns: ReadonlyArray<TextTable.Column<Firing>> = [
  ["DUE", ({ due_at }) => ({ at: due_at })],
  ["OUTCOME", ({ outcome }) => outcome],
  ["PLAN", ({ plan_id }) => plan_id ?? ""],
  ["FIRED", ({ fired_at }) => ({ at: fired_at })],
  ["REASON", ({ reason }) => reason ?? ""]
]

const print = (schedule: Schedule, asJson: boolean) =>
  asJson ? printLine(toJson(schedule)) : TextTable.print(columns, [schedule], "")

interface Options {
  readonly signal: AbortSignal
}

/** The id of a schedule that somebody names by its name, or by its id. */
const find = async (bowline: Bowline, named: string, options: Options): Promise<string | undefined> => {
  if (/^schedule_[0-9a-f-]{36}$/.test(named)) return named
  for await (const { name, schedule_id } of bowline.schedules.list({ limit: 200 }, options)) {
    if (name === named) return schedule_id
  }
  return undefined
}

/** Asks about one schedule. */
const request = <A>(named: string, ask: (bowline: Bowline, id: string, options: Options) => Promise<A>) =>
  GatewayClient.request(async (bowline, options) => {
    const id = await find(bowline, named, options)
    return id === undefined ? undefined : { answer: await ask(bowline, id, options) }
  }).pipe(
    Effect.flatMap((found) =>
      found === undefined
        ? Effect.fail(failed(`There is no schedule ${named}: bowline schedules lists yours`))
        : Effect.succeed(found.answer)
    )
  )

const schedule = Argument.String("schedule").pipe(Argument.withDescription("The name of the schedule, or its id"))

/** A command about one schedule. */
const about = <A>(
  name: string,
  description: string,
  ask: (bowline: Bowline, id: string, options: Options) => Promise<A>,
  show: (answer: A, given: { readonly schedule: string; readonly json: boolean }) => Effect.Effect<void>
) =>
  Command.make(name, { schedule, json: PageFlags.json }, (given) =>
    Effect.flatMap(request(given.schedule, ask), (answer) => show(answer, given))
  ).pipe(Command.withDescription(description))

const facts = (schedule: Schedule): ReadonlyArray<readonly [name: string, value: string]> => [
  ["name", schedule.name],
  ["id", schedule.schedule_id],
  ["when", whenOf(schedule)],
  ["state", stateOf(schedule)],
  ["next", schedule.next_at ?? ""],
  ["last", schedule.last_at ?? ""],
  ["last plan", schedule.last_plan_id ?? ""],
  ["overlap", schedule.overlap],
  ["catch up", schedule.catch_up],
  ["plan", toJson(schedule.plan)]
]

const show = about(
  "show",
  "Show a schedule, and what its plans are asked",
  (bowline, id, options) => bowline.schedules.get(id, options),
  (schedule, { json }) =>
    json
      ? printLine(toJson(schedule))
      : Effect.forEach(facts(schedule), ([name, value]) => printLine(`${name}\t${value}`), { discard: true })
)

const pausing = (name: "pause" | "resume", description: string) =>
  about(
    name,
    description,
    (bowline, id, options) => bowline.schedules.update(id, { paused: name === "pause" }, options),
    (schedule, { json }) => print(schedule, json)
  )

const fire = about(
  "fire",
  "Start the plan of a schedule now, once more, and print the plan's id",
  async (bowline, id, { signal }) => {
    const leaving = new AbortController()
    // The plan runs on without a reader.
    const plan = bowline.schedules.fire(id, { signal: AbortSignal.any([signal, leaving.signal]) })
    return plan.planId.finally(() => leaving.abort())
  },
  (plan_id, { json }) =>
    json
      ? printLine(toJson({ plan_id }))
      : Effect.andThen(printLine(plan_id), tell(`Watch it: bowline tail ${plan_id}`))
)

const remove = about(
  "remove",
  "Delete a schedule with its firings; its plans stay",
  (bowline, id, options) => bowline.schedules.delete(id, options),
  (_, { schedule }) => tell(`Removed ${schedule}`)
)

const firings = Command.make("firings", { schedule, ...PageFlags.flags }, ({ cursor, json, limit, schedule }) =>
  request(schedule, (bowline, id, options) =>
    bowline.schedules.firings(id, { limit }).page(Option.getOrUndefined(cursor), options)
  ).pipe(
    Effect.flatMap(({ firings, next_cursor }) =>
      PageFlags.print({ name: "firings", rows: firings, next: next_cursor }, firingColumns, json)
    )
  )
).pipe(Command.withDescription("List what became of the due times of a schedule, the last one first"))

const decodePlan = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

const text = (name: string, description: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.optional)

const parameters = {
  name: Argument.String("name").pipe(Argument.withDescription("Your name of the schedule")),
  question: Argument.String("question").pipe(
    Argument.withDescription("What its plans are asked; {{due_at}}, {{schedule}} and {{last_answer}} are replaced"),
    Argument.optional
  ),
  cron: text("cron", "Five fields: minute, hour, day of month, month, day of week, such as '0 9 * * 1-5'"),
  zone: text("zone", "The IANA time zone of --cron; this machine's, if not given"),
  every: Flag.String("every").pipe(
    Flag.withDescription("Every so often, such as 90s or 2h"),
    Flag.withSchema(duration("1s")),
    Flag.optional
  ),
  from: text("from", "From when --every counts, such as 2026-01-02T03:04:05Z; from now, if not given"),
  at: text("at", "Once, at this time, such as 2026-01-02T03:04:05Z"),
  preset: text("preset", "The preset of its plans"),
  plan: Flag.String("plan").pipe(
    Flag.withDescription("More of what its plans are asked with, as the JSON body of POST /plan"),
    Flag.filterMap(decodePlan, () => "Expected a JSON object"),
    Flag.optional
  ),
  sameSession: Flag.Boolean("same-session").pipe(
    Flag.withDescription("All its plans are in one session"),
    Flag.withDefault(false)
  ),
  overlap: Flag.Literals("overlap", Overlap.literals).pipe(
    Flag.withDescription("What happens to a due time while the plan before is not over: skip, if not given"),
    Flag.optional
  ),
  catchUp: Flag.Literals("catch-up", CatchUp.literals).pipe(
    Flag.withDescription("Which of the due times that came while no gateway ran are made up for: last, if not given"),
    Flag.optional
  ),
  paused: Flag.Boolean("paused").pipe(Flag.withDescription("It begins paused"), Flag.withDefault(false)),
  json: PageFlags.json
}

type Given = Command.Command.Config.Infer<typeof parameters>

const misused = (line: string) =>
  new Ended({ code: exitCodes.usage, lines: [`${line} (see bowline schedules add --help)`] })

/** The fields that are there. */
const some = <A extends object>(fields: Option.Option<A>): A | object => Option.getOrElse(fields, () => ({}))

/** When the flags say that it is due. One of them says it. */
const toWhen = ({ at, cron, every, from, zone }: Given): NewSchedule["when"] | Ended => {
  const given = [Option.isSome(at), Option.isSome(cron), Option.isSome(every)]
  if (given.filter((is) => is).length !== 1) return misused("Expected --cron, --every or --at")
  if (Option.isSome(zone) && Option.isNone(cron)) return misused("--zone is for --cron")
  if (Option.isSome(from) && Option.isNone(every)) return misused("--from is for --every")
  if (Option.isSome(at)) return { at: at.value }
  if (Option.isSome(every))
    return { every_ms: Duration.toMillis(every.value), ...some(Option.map(from, (from) => ({ from }))) }
  const own = () => new Intl.DateTimeFormat().resolvedOptions().timeZone
  return { cron: Option.getOrElse(cron, () => ""), time_zone: Option.getOrElse(zone, own) }
}

/** What the flags make, for the gateway to check. */
export const toSchedule = (given: Given): NewSchedule | Ended => {
  const when = toWhen(given)
  if (when instanceof Ended) return when
  const more: Readonly<Record<string, unknown>> = Option.getOrElse(given.plan, () => ({}))
  const question = Option.getOrElse(given.question, () => more["question"])
  if (typeof question !== "string") return misused("Expected a question, behind the name or in --plan")
  return {
    name: given.name,
    when,
    plan: {
      ...more,
      question,
      ...some(Option.map(given.preset, (preset) => ({ preset }))),
      ...(given.sameSession && { session: "same" })
    },
    ...some(Option.map(given.overlap, (overlap) => ({ overlap }))),
    ...some(Option.map(given.catchUp, (catch_up) => ({ catch_up }))),
    paused: given.paused
  }
}

const add = Command.make(
  "add",
  parameters,
  Effect.fnUntraced(function* (given) {
    const made = toSchedule(given)
    if (made instanceof Ended) return yield* made
    const schedule = yield* GatewayClient.request((bowline, options) => bowline.schedules.create(made, options))
    yield* print(schedule, given.json)
  })
).pipe(Command.withDescription("Have a plan start by itself, at the times of --cron, --every or --at"))

const list = (name: "list" | "schedules") =>
  Command.make(name, PageFlags.flags, ({ cursor, json, limit }) =>
    GatewayClient.request((bowline, options) =>
      bowline.schedules.list({ limit }).page(Option.getOrUndefined(cursor), options)
    ).pipe(
      Effect.flatMap(({ next_cursor, schedules }) =>
        PageFlags.print({ name: "schedules", rows: schedules, next: next_cursor }, columns, json)
      )
    )
  )

/** Plans that start by themselves: without a subcommand it lists them. */
export const schedules = list("schedules").pipe(
  Command.withDescription("List your schedules, newest first, or do something with one"),
  Command.withSubcommands([
    list("list").pipe(Command.withDescription("List your schedules, newest first")),
    show,
    add,
    pausing("pause", "Pause a schedule: nothing of it is due"),
    pausing("resume", "Have a schedule go on, from its next due time"),
    fire,
    firings,
    remove
  ])
)
