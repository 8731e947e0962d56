import type { GatewayConfig } from "./GatewayConfig.ts"

const line = (names: ReadonlyArray<string>, what: string): ReadonlyArray<string> =>
  names.length === 0 ? [] : [`Set, and ${what}: ${names.join(", ")}`]

/** What the operator has set and will look for in vain: a line for each reason. */
export const unheeded = ({
  ignored,
  overruled
}: Pick<GatewayConfig["Service"], "ignored" | "overruled">): ReadonlyArray<string> => [
  ...line(ignored, "not honoured by this version"),
  ...line(overruled, "another variable wins over it")
]
