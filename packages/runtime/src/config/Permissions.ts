import type { CallerName } from "@bowline/domain/caller/CallerName"
import { type AgentAuth, urlsOf } from "@bowline/domain/peer/Agent"
import { Context } from "effect"
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
}

const always = () => true

export const everything: Permission = { tool: always, host: always, model: always, recipe: always }

/**
 * Who may use what. Everybody may use everything, unless the app says otherwise. It is asked anew for each plan, and for each
 * call, so that what an operator forbids is forbidden to running plans, too.
 */
export const Permissions = Context.Reference<{ readonly forCaller: (caller: CallerName) => Permission }>(
  "@bowline/runtime/config/Permissions",
  { defaultValue: () => ({ forCaller: () => everything }) }
)

/** The host of a URL in one spelling: in lower case, without the port, the dot at its end, and the brackets of an address. */
export const hostOf = (url: string): string => new URL(url).hostname.replace(/\.$/, "").replace(/^\[|\]$/g, "")

/** Whether the gateway may connect to an agent or a server: to its URL, and to the one that its tokens come from. */
export const allowsUrl = ({ host }: Permission, url: string, auth: AgentAuth): boolean =>
  urlsOf(url, auth).every((url) => host(hostOf(url)))

/** Whether a tool may be called: by its name, and by the hosts that the call connects to. */
export const allowsTool = (
  permission: Permission,
  { urls = [], ...names }: Pick<Tool, "agent" | "name" | "skill" | "urls">
): boolean => ToolName.spellingsOf(names).every(permission.tool) && urls.every((url) => permission.host(hostOf(url)))
