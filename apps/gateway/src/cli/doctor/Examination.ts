import * as RecipeFolder from "@bowline/runtime/prompt/RecipeFolder"
import { Effect } from "effect"
import { HttpClient } from "effect/http"
import { styleText } from "node:util"
import { fromProcess, type GatewayConfig, settingsWithoutEffect } from "../../config/GatewayConfig.ts"
import { Ended, exitCodes, misconfigured } from "../Ended.ts"
import { printLine } from "../Output.ts"
import { oneLine, toJson } from "../TerminalText.ts"
import { databaseCheck } from "./DatabaseCheck.ts"
import { type Check, type Finding, ok, run, warn } from "./Finding.ts"
import { machineChecks } from "./MachineChecks.ts"
import { networkChecks } from "./NetworkChecks.ts"
import { providerChecks } from "./ProviderChecks.ts"

const configuration = (config: GatewayConfig["Service"]): Check => ({
  name: "configuration",
  find: Effect.map(RecipeFolder.faultsOf(config.texts.recipes), (faults) => {
    const warnings = [
      ...settingsWithoutEffect(config).map((line) => warn(line, "Unset what has no effect")),
      ...faults.map(({ path, reason }) => warn(`${path}: ${reason}`, "Correct the recipe, or remove it"))
    ]
    return warnings.length === 0 ? [ok("valid")] : warnings
  })
})

const colours = { ok: "green", warn: "yellow", fail: "red" } as const

const line = ({ advice, check, detail, state }: Finding): string =>
  // Without a terminal, or with NO_COLOR, it has no colour.
  `${styleText(colours[state], state.padEnd(4), { stream: process.stdout })}  ${oneLine(`${check}: ${detail}${advice === undefined ? "" : `. ${advice}`}`)}`

/** Makes all checks side by side and prints what they find. Fails if one of them does. */
export const examine = Effect.fnUntraced(
  function* (isJson: boolean) {
    const config = yield* fromProcess()
    const http = yield* HttpClient.HttpClient
    const checks = [
      configuration(config),
      ...machineChecks(config),
      databaseCheck(config),
      ...networkChecks(http, config),
      ...providerChecks(http, config)
    ]
    const findings = (yield* Effect.forEach(checks, run, { concurrency: "unbounded" })).flat()
    const failed = findings.filter(({ state }) => state === "fail").length
    yield* printLine(isJson ? toJson({ ok: failed === 0, findings }) : findings.map(line).join("\n"))
    if (failed > 0) return yield* new Ended({ code: exitCodes.failed, lines: [] })
  },
  Effect.catchTag("InvalidConfiguration", ({ problems }) => misconfigured(problems))
)
