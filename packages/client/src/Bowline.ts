export { type Frame, initialView, type PlanView } from "./PlanView.ts"
export { isPlanFrame, reduce } from "./Reduce.ts"
