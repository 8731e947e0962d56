import * as NodeServices from "@effect/platform-node/NodeServices"
import * as RecipeFolder from "@bowline/runtime/prompt/RecipeFolder"
import { Effect, Layer } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag } from "effect/cli"
import manifest from "../../package.json" with { type: "json" }
import { answer } from "./AnswerCommand.ts"
import { ask } from "./AskCommand.ts"
import { credentials } from "./CredentialsCommand.ts"
import { doctor } from "./DoctorCommand.ts"
import { evaluate } from "./EvalCommand.ts"
import { fork } from "./ForkCommand.ts"
import { Ended, exitCodes, misconfigured } from "./Ended.ts"
import { accounts } from "./AccountsCommand.ts"
import { keys } from "./KeysCommand.ts"
import { printLine, tell } from "./Output.ts"
import { exportPlans } from "./ExportCommand.ts"
import { cancel, plans } from "./PlansCommand.ts"
import { replay } from "./ReplayCommand.ts"
import * as RunCommand from "./RunCommand.ts"
import * as ServeCommand from "./ServeCommand.ts"
import { schedules } from "./SchedulesCommand.ts"
import { sessions } from "./SessionsCommand.ts"
import { tail } from "./TailCommand.ts"
import { usage } from "./UsageCommand.ts"
import { waiting } from "./WaitingCommand.ts"
import { webhooks } from "./WebhooksCommand.ts"

/** Lists what is wrong with the configuration, or shows what holds. It starts nothing. */
const check = Command.make("check", ServeCommand.own, (own) =>
  Effect.gen(function* () {
    const { fromProcess, settingsWithoutEffect } = yield* ServeCommand.Configuration
    const config = yield* fromProcess(ServeCommand.commandLineOf(own))
    yield* printLine(JSON.stringify(config.effective, null, 2))
    const faults = yield* RecipeFolder.faultsOf(config.texts.recipes)
    const lines = [
      ...settingsWithoutEffect(config),
      ...faults.map(({ path, reason }) => `A recipe that cannot be used: ${path}: ${reason}`)
    ]
    yield* Effect.forEach(lines, (line) => tell(line), { discard: true })
  }).pipe(Effect.catchTag("InvalidConfiguration", ({ problems }) => misconfigured(problems)))
).pipe(Command.withDescription("Check the configuration, and show what holds and what does not"))

const bowline = Command.make("bowline", {}, () => ServeCommand.run()).pipe(
  Command.withDescription("An agent gateway that never gets stuck. Without a subcommand it serves"),
  Command.withSubcommands([
    ServeCommand.serve,
    ask,
    tail,
    plans,
    cancel,
    waiting,
    answer,
    sessions,
    schedules,
    credentials,
    keys,
    accounts,
    usage,
    webhooks,
    exportPlans,
    fork,
    replay,
    evaluate,
    check,
    doctor
  ])
)

/** Reports a wrong command line as one line on stderr, like every other error. */
const misuse = CliOutput.layerPresenter({
  present: (event) => {
    if (event._tag !== "InvalidInvocation") return CliOutput.defaultPresenter.present(event)
    const problems = event.errors.map(({ message }) => message.trim().replaceAll(/\s+/g, " ")).join("; ")
    return tell(`${problems} (see ${event.commandPath.join(" ")} --help)`)
  }
})

/** The library has told what is wrong: only its exit code is another one. */
const misused = ({ errors }: { readonly errors: ReadonlyArray<unknown> }) =>
  errors.length === 0 ? Effect.void : new Ended({ code: exitCodes.usage, lines: [] })

const { Completions, Help, Version } = GlobalFlag

const layer = Layer.effectDiscard(
  Effect.catchTag(Command.run(bowline, { version: manifest.version }), "ShowHelp", misused)
).pipe(Layer.provide([NodeServices.layer, misuse, CliConfig.layer({ builtIns: [Help, Version, Completions] })]))

/** Runs the command that the arguments of this process name. */
export const run = (): void => RunCommand.run(Effect.scoped(Layer.build(layer)))
