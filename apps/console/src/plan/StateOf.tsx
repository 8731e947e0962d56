import type { Plan } from "@bowline/client"
import { State } from "../shell/State.tsx"
import { stageWords } from "./OutcomeWords.ts"

const forSomebody: ReadonlySet<string | null> = new Set(["approval", "client"])

/** Where what waits for somebody is listed, by the stage of its plans. */
export const waitingHref = (stage: Plan["stage"]): string | null =>
  stage === "approval" ? "/approvals" : stage === "client" ? "/waiting" : null

/** How far a plan is, in words. One that waits for somebody does not run on by itself. */
export const StateOf = ({ plan: { stage, state } }: { readonly plan: Pick<Plan, "stage" | "state"> }) => (
  <State state={forSomebody.has(stage) ? "waiting" : state} words={stageWords(state, stage)} />
)
