import { allowsTool, type Permission } from "../config/Permissions.ts"
import type { EffectRule } from "../config/PlansConfig.ts"
import type { Tool } from "../tool/Tool.ts"
import { spellingsOf } from "../tool/ToolName.ts"
import type { RecordedTools } from "./RecordedTools.ts"
import type { Notice } from "./MissingTools.ts"

/** How many tools a plan may have. */
export const maxTools = 2_000

export const notAllowed = "The permissions of the caller do not allow it"
const taken = "Another tool of the plan has its name"

/** What is said of a source of tools besides its tools: the agents and servers that did not say what they can do, and what the caller should know. */
export interface Remarks {
  readonly unreachable: ReadonlyArray<string>
  readonly notices: ReadonlyArray<Notice>
}

/** The tools of a plan, by name: those that the model is offered, and those that the caller may not use. */
export class GatheredTools {
  readonly offered = new Map<string, Tool>()
  readonly withheld = new Map<string, Tool>()
  readonly #permission: Permission
  readonly #effectOf: EffectRule
  readonly #recorded: RecordedTools | undefined

  constructor(permission: Permission, effectOf: EffectRule, recorded?: RecordedTools) {
    this.#permission = permission
    this.#effectOf = effectOf
    this.#recorded = recorded
  }

  has(name: string): boolean {
    return this.offered.has(name) || this.withheld.has(name)
  }

  /** Adds a tool, and says why the model is not offered it, if so. */
  add(tool: Tool): string | undefined {
    if (this.has(tool.name)) return taken
    const isAllowed = allowsTool(this.#permission, tool)
    // What the operator says wins over what the tool says itself.
    const said = spellingsOf(tool).map((name) => this.#effectOf(name))
    const effect = tool.isPolling ? undefined : said.find((effect) => effect !== undefined)
    const kept = effect === undefined ? tool : { ...tool, effect }
    ;(isAllowed ? this.offered : this.withheld).set(tool.name, this.#recorded?.of(kept) ?? kept)
    return isAllowed ? undefined : notAllowed
  }

  /** Removes all tools of a kind. */
  remove(kind: Tool["kind"]): void {
    for (const tools of [this.offered, this.withheld]) {
      for (const tool of Array.from(tools.values())) if (tool.kind === kind) tools.delete(tool.name)
    }
  }
}
