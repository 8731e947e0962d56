import type { Plan } from "@bowline/client"
import { changed } from "../route/Route.ts"
import { State } from "../shell/State.tsx"
import { stageWords } from "./OutcomeWords.ts"

const forSomebody: ReadonlySet<string | null> = new Set(["approval", "client"])

/** Where what waits for somebody is listed, by the stage of its plans and whose they are. */
export const waitingHref = (stage: Plan["stage"], caller: string | null): string | null =>
  forSomebody.has(stage)
    ? `/${stage === "approval" ? "approvals" : "waiting"}${changed(new URLSearchParams(), { caller })}`
    : null

/** How far a plan is, in words. One that waits for somebody does not run on by itself. */
export const StateOf = ({ plan: { stage, state } }: { readonly plan: Pick<Plan, "stage" | "state"> }) => (
  <State state={forSomebody.has(stage) ? "waiting" : state} words={stageWords(state, stage)} />
)
