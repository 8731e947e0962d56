import { Record } from "effect"
import { isIP } from "node:net"
import type { Texts } from "./ReadSettings.ts"

const isNumber = (text: string): boolean => /^\d{1,5}$/.test(text)
const isAddress = (text: string): boolean => isIP(text) !== 0
const isUrl = (text: string): boolean => /^(tcp|udp|sctp):\/\/(\d[\d.]+|\[[\da-f:.]+\]):\d{1,5}$/.test(text)
const isProtocol = (text: string): boolean => /^(tcp|udp|sctp)$/.test(text)

/** How the names of service links end, and what their values are. */
const shapes: ReadonlyArray<readonly [ending: string, isValue: (text: string) => boolean]> = [
  ["SERVICE_HOST", isAddress],
  ["SERVICE_PORT(_[A-Z0-9_]+)?", isNumber],
  ["PORT", isUrl],
  ["PORT_\\d+_(TCP|UDP|SCTP)", isUrl],
  ["PORT_\\d+_(TCP|UDP|SCTP)_PROTO", isProtocol],
  ["PORT_\\d+_(TCP|UDP|SCTP)_PORT", isNumber],
  ["PORT_\\d+_(TCP|UDP|SCTP)_ADDR", isAddress]
]

const patterns = shapes.map(
  ([ending, isValue]) => [new RegExp(`^BOWLINE_(?:[A-Z0-9_]+_)?${ending}$`), isValue] as const
)

const isServiceLink = (text: string | undefined, name: string): boolean =>
  text !== undefined && patterns.some(([pattern, isValue]) => pattern.test(name) && isValue(text))

/**
 * Separates the operator's variables from those that Kubernetes puts into every pod of a namespace with a Service called `bowline`, or
 * `bowline-` and more (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables). Both the name and
 * the value have to have the shape of a service link, so a mistake in one of ours is still found.
 */
export const withoutServiceLinks = (
  environment: Texts
): { readonly settings: Texts; readonly links: ReadonlyArray<string> } => ({
  settings: Record.filter(environment, (text, name) => !isServiceLink(text, name)),
  links: Object.keys(Record.filter(environment, isServiceLink))
})
