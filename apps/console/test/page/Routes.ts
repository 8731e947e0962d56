import { createBowline } from "@bowline/client"
import { ask } from "./Ask.ts"

/** What is shown when everything on it is there. */
export interface ShownRoute {
  readonly name: string
  readonly path: string
  /** Something that stands on the page as soon as it is whole. */
  readonly ready: string
}

/** The pages of a gateway that nobody has asked anything yet. */
export const emptyRoutes: ReadonlyArray<ShownRoute> = [
  { name: "ask", path: "/", ready: "text=Nothing runs" },
  { name: "plans", path: "/plans", ready: ".empty" },
  { name: "plan", path: "/plans/plan_unknown", ready: "text=There is no such plan" },
  { name: "sessions", path: "/sessions", ready: ".empty" },
  { name: "approvals", path: "/approvals", ready: "text=Nothing waits for a decision" },
  { name: "peers", path: "/peers", ready: "main h1" },
  { name: "credentials", path: "/credentials", ready: "main h1" },
  { name: "unknown", path: "/nothing", ready: "text=There is no such page" }
]

const over = async (url: string, planId: string): Promise<void> => {
  for await (const frame of createBowline({ baseUrl: url }).attach(planId)) if (frame.event === "done") return
}

/** A row of the timeline. */
const finished = (what: string) => `[role=row]:has-text("${what} finished")`

/** Asks the demo for something of everything, and gives the pages that show it. */
export const fillDemo = async (url: string): Promise<ReadonlyArray<ShownRoute>> => {
  const bowline = createBowline({ baseUrl: url })
  const full = await ask(url, {
    question: "Ask prompt and slow what a bowline is.",
    preset: "demo",
    session_id: "knots"
  })
  const retracted = await ask(url, { question: "Change your mind: what is a bowline?" })
  const stuck = await ask(url, { question: "Ask stuck what a bowline is.", preset: "demo" })
  await ask(url, {
    question: "Ask prompt, with my approval, what a bowline is.",
    preset: "demo",
    preferences: { approval: "always" }
  })
  await Promise.all([over(url, full), over(url, retracted)])
  const { session_id } = await bowline.plans.get(full)
  return [
    // What can be asked comes with the configuration, the table with the plans: so both are waited for.
    { name: "ask", path: "/", ready: "main:has(.samples):has(tbody tr)" },
    { name: "plans", path: "/plans", ready: "tbody tr" },
    // The answer comes with the plan's record, the timeline with its events.
    {
      name: "plan",
      path: `/plans/${full}`,
      ready: `main:has(.prose) ${finished("Step 2")} ~ ${finished("Attempt 1")}`
    },
    { name: "running", path: `/plans/${stuck}`, ready: "[role=row] >> text=stuck" },
    { name: "retracted", path: `/plans/${retracted}`, ready: `main:has(.prose) ${finished("Attempt 2")}` },
    { name: "sessions", path: "/sessions", ready: "tbody tr" },
    { name: "session", path: `/sessions/${session_id}`, ready: "main h1" },
    { name: "approvals", path: "/approvals", ready: ".approval .story" },
    { name: "peers", path: "/peers", ready: "tbody tr" },
    { name: "credentials", path: "/credentials", ready: "tbody tr" },
    { name: "unknown", path: "/nothing", ready: "text=There is no such page" }
  ]
}
