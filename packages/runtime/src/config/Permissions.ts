import type { CallerName } from "@bowline/domain/caller/CallerName"
import { type AgentAuth, urlsOf } from "@bowline/domain/peer/Agent"
import { Context, Option } from "effect"
import { parseAddress } from "../egress/AddressClass.ts"
import type { Tool } from "../tool/Tool.ts"
import * as ToolName from "../tool/ToolName.ts"

/** What one caller may use, by name. */
export interface Permission {
  /** Tools by their full names. */
  readonly tool: (name: string) => boolean
  /** Hosts as `hostOf` gives them. */
  readonly host: (host: string) => boolean
  /** What `preferences.model` may name. The other models of a plan are the operator's choice. */
  readonly model: (model: string) => boolean
  readonly recipe: (name: string) => boolean
  readonly preset: (name: string) => boolean
}

const always = () => true
const never = () => false

export const everything: Permission = { tool: always, host: always, model: always, recipe: always, preset: always }
export const nothing: Permission = { tool: never, host: never, model: never, recipe: never, preset: never }

/** What both of them allow. */
export const narrow = (one: Permission, other: Permission): Permission =>
  other === everything
    ? one
    : {
        tool: (name) => one.tool(name) && other.tool(name),
        host: (host) => one.host(host) && other.host(host),
        model: (model) => one.model(model) && other.model(model),
        recipe: (name) => one.recipe(name) && other.recipe(name),
        preset: (name) => one.preset(name) && other.preset(name)
      }

/**
 * Who may use what. Everybody may use everything, unless the app says otherwise. It is asked anew for each plan, and for each
 * call, so that what an operator forbids is forbidden to running plans, too.
 */
export const Permissions = Context.Reference<{
  /** `groups` are those of the caller, as far as anybody knows them: of a plan they are stored. */
  readonly forCaller: (caller: CallerName, groups?: ReadonlyArray<string>) => Permission
}>("@bowline/runtime/config/Permissions", { defaultValue: () => ({ forCaller: () => everything }) })

/** A host in one spelling: without the dot at its end. An address in IPv6 that reaches one in IPv4, such as `::ffff:10.0.0.1`, is that one. */
export const spell = (host: string): string =>
  Option.match(parseAddress(host), { onNone: () => host.toLowerCase().replace(/\.$/, ""), onSome: String })

/** The host of a URL in one spelling, without the port and the brackets of an address. */
export const hostOf = (url: string): string => spell(new URL(url).hostname.replace(/^\[|\]$/g, ""))

/** Whether the gateway may connect to an agent or a server: to its URL, and to the one that its tokens come from. */
export const allowsUrl = ({ host }: Permission, url: string, auth: AgentAuth): boolean =>
  urlsOf(url, auth).every((url) => host(hostOf(url)))

/** Whether a tool may be called: by its name, and by the hosts that the call connects to. */
export const allowsTool = (
  permission: Permission,
  { urls = [], ...names }: Pick<Tool, "agent" | "name" | "skill" | "urls">
): boolean => ToolName.spellingsOf(names).every(permission.tool) && urls.every((url) => permission.host(hostOf(url)))
