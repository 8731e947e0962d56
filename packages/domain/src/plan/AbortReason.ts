import { Schema } from "effect"

/** Why a plan was ended from outside its own logic. The first reason wins. */
export const AbortReason = Schema.Literals(["disconnect", "deadline", "cancelled", "superseded", "shutdown"])
export type AbortReason = typeof AbortReason.Type

/** Whether the same question may be asked again as it is. */
export const isRetryable = (reason: AbortReason): boolean => reason === "shutdown" || reason === "deadline"
