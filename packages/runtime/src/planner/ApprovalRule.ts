import type { ApprovalPreference, ApprovalReason } from "@bowline/domain/plan/Approval"
import type { ApprovalRules } from "../config/PlansConfig.ts"
import type { Tool } from "../tool/Tool.ts"

/**
 * Why calls of a tool need an approval; undefined where they need none. A request's `never` overrides neither the configuration's
 * `always` nor a skill's; a skill's `never` is the request's `never` for this one tool.
 */
export const reasonOf = (
  { approval, approvalReason, name }: Pick<Tool, "approval" | "approvalReason" | "name">,
  preference: ApprovalPreference,
  { isSensitive, isAlways }: ApprovalRules
): ApprovalReason | undefined => {
  if (isAlways(name)) return "always"
  if (approval === "always") return "skill"
  if (approval === "never" || preference === "never") return undefined
  if (preference === "always") return "always"
  return isSensitive(name) ? "sensitive" : approvalReason
}
