import { Effect, Record, Result, Schema } from "effect"
import { toIssues } from "../config/setting/ConfigProblem.ts"
import { InvalidConfiguration } from "../config/setting/ReadSettings.ts"
import { clientSettings, ClientValues } from "../config/setting/Settings.ts"

const decode = Schema.decodeUnknownResult(ClientValues, { errors: "all" })

const variables = Record.map(clientSettings, ({ variable = "" }) => variable)

/** The gateway that the environment of this process names. */
export const fromProcess = Effect.suspend(() => {
  const texts = Record.filter(
    Record.map(variables, (name) => process.env[name]?.trim() ?? ""),
    (text) => text !== ""
  )
  return Effect.fromResult(
    Result.mapError(
      decode(texts),
      (error) =>
        new InvalidConfiguration({
          problems: toIssues(error).map(({ expected, path: [name] }) => ({
            place: { _tag: "Variable", name: name === "url" ? variables.url : variables.apiKey },
            expected
          }))
        })
    )
  )
})
