import { Schema, Struct } from "effect"
import { httpSettings } from "./HttpSettings.ts"
import { planSettings, streamSettings } from "./PlanSettings.ts"
import { providerVariables } from "./ProviderVariables.ts"
import { edgeSettings, serverSettings, storeSettings } from "./ServerSettings.ts"
import { type Setting, type SchemaOf, optional, setting } from "./Setting.ts"
import { expecting, httpUrl, matching } from "./SettingText.ts"
import { telemetrySettings } from "./TelemetrySettings.ts"

/** Everything that an operator can set, except the lists of the file: providers, models and hosts of peers. */
export const settings = {
  ...serverSettings,
  ...httpSettings,
  ...storeSettings,
  ...planSettings,
  ...edgeSettings,
  ...telemetrySettings,
  ...providerVariables,
  ...streamSettings
}

export type SettingName = keyof typeof settings

/** The same settings, for code that treats all alike. */
export const table: Readonly<Record<SettingName, Setting>> = settings

const schemaOf = Struct.lambda<SchemaOf>((setting) => setting.schema)

/** Reads the values of all settings from their texts. */
export const Values = Schema.Struct(Struct.map(settings, schemaOf))
export type Values = typeof Values.Type

const hasNoUser = (text: string): boolean => {
  const url = URL.parse(text)
  return url !== null && url.username + url.password === ""
}

/** Commands print it. */
const gatewayUrl = httpUrl
  .check(Schema.makeFilter(hasNoUser))
  .pipe(expecting("Expected an http or https URL without a user and a password; a key goes into BOWLINE_API_KEY"))

/** The settings of commands that call a gateway. */
export const clientSettings = {
  url: setting(gatewayUrl, {
    variable: "BOWLINE_URL",
    default: "http://127.0.0.1:3774",
    doc: "the gateway that the other commands of the command line speak to"
  }),
  apiKey: optional(Schema.RedactedFromValue(matching(/^[\x21-\x7e]+$/, "Expected a key of printable ASCII")), {
    variable: "BOWLINE_API_KEY",
    secret: true,
    unset: "none",
    doc: "the key that they send"
  })
}

export const ClientValues = Schema.Struct(Struct.map(clientSettings, schemaOf))

/** Names the file, which is read first. */
export const fileVariable = "BOWLINE_CONFIG"
