import type { ApprovalPreference, ApprovalReason } from "@bowline/domain/plan/Approval"
import type { ApprovalRules } from "../config/PlansConfig.ts"
import type { Tool } from "../tool/Tool.ts"
import { spellingsOf } from "../tool/ToolName.ts"

type Named = Pick<Tool, "agent" | "name" | "skill">

/** Whether the configuration has each call of the tool approved. */
export const isAlways = (tool: Named, rules: Pick<ApprovalRules, "isAlways">): boolean =>
  spellingsOf(tool).some(rules.isAlways)

/**
 * Whether calls of a tool are made without asking anybody, whatever the tool is. A request's `never` overrides neither the
 * configuration's `always` nor a skill's; a skill's `never` is the request's `never` for this one tool.
 */
export const isUnattended = (
  { approval, ...names }: Named & Pick<Tool, "approval">,
  preference: ApprovalPreference,
  { isAlways }: Pick<ApprovalRules, "isAlways">
): boolean =>
  !spellingsOf(names).some(isAlways) && approval !== "always" && (approval === "never" || preference === "never")

/** Why calls of a tool need an approval; undefined where they need none. That the tool has changed is what a person has to know first. */
export const reasonOf = (
  tool: Named & Pick<Tool, "approval" | "approvalReason" | "trust">,
  preference: ApprovalPreference,
  rules: ApprovalRules
): ApprovalReason | undefined => {
  const { approval, approvalReason, trust } = tool
  const names = spellingsOf(tool)
  if (isUnattended(tool, preference, rules)) return undefined
  if (trust?.isChanged === true) return "description_changed"
  if (names.some(rules.isAlways)) return "always"
  if (approval === "always") return "skill"
  if (preference === "always") return "always"
  return names.some(rules.isSensitive) ? "sensitive" : approvalReason
}
