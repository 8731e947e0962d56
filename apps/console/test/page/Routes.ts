import { createBowline } from "@bowline/client"
import { expect } from "@effect/vitest"
import type { Page } from "playwright-core"
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
  { name: "overview", path: "/overview", ready: ".empty" },
  { name: "usage", path: "/usage", ready: "main:has(tbody tr)" },
  { name: "plans", path: "/plans", ready: ".empty" },
  { name: "plan", path: "/plans/plan_unknown", ready: "text=There is no such plan" },
  { name: "sessions", path: "/sessions", ready: ".empty" },
  { name: "schedules", path: "/schedules", ready: ".empty" },
  { name: "waiting", path: "/waiting", ready: "text=Nothing waits for somebody" },
  { name: "approvals", path: "/approvals", ready: "text=Nothing waits for a decision" },
  { name: "accounts", path: "/accounts", ready: "text=No account is connected" },
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
  const { schedule_id } = await bowline.schedules.create({
    name: "knots of the hour",
    when: { every_ms: 3_600_000 },
    plan: { question: "Which knots slipped before {{due_at}}?" }
  })
  await Promise.all([over(url, full), over(url, retracted)])
  const { session_id } = await bowline.plans.get(full)
  return [
    // What can be asked comes with the configuration, the table with the plans: so both are waited for.
    { name: "ask", path: "/", ready: "main:has(.samples):has(tbody tr)" },
    { name: "overview", path: "/overview", ready: "main:has(.chart):has(.part tbody tr):has(dd .state)" },
    { name: "plans", path: "/plans", ready: "main:has(.chart):has(tbody tr)" },
    // The answer comes with the plan's record, the timeline with its events.
    {
      name: "plan",
      path: `/plans/${full}`,
      ready: `main:has(.prose) ${finished("Step 2")} ~ ${finished("Attempt 1")}`
    },
    { name: "running", path: `/plans/${stuck}`, ready: "[role=row] >> text=stuck" },
    { name: "retracted", path: `/plans/${retracted}`, ready: `main:has(.prose) ${finished("Attempt 2")}` },
    { name: "sessions", path: "/sessions", ready: "tbody tr" },
    { name: "session", path: `/sessions/${session_id}`, ready: 'main:has(summary:has-text("as a list")):has(.prose)' },
    { name: "schedules", path: "/schedules", ready: "tbody tr" },
    { name: "schedule", path: `/schedules/${schedule_id}`, ready: "text=It has not been due yet" },
    { name: "approvals", path: "/approvals", ready: ".approval .story" },
    // By now all plans have said what they use.
    { name: "usage", path: "/usage?by=model", ready: "tbody tr" },
    { name: "peers", path: "/peers", ready: "tbody tr" },
    { name: "try", path: "/peers?try=demo/prompt", ready: ".try .value-fields" },
    { name: "credentials", path: "/credentials", ready: "tbody tr" },
    { name: "unknown", path: "/nothing", ready: "text=There is no such page" }
  ]
}

/** Goes to a page, and waits until it is whole. */
export const show = async (page: Page, { path, ready }: ShownRoute) => {
  await page.goto(path)
  await page.locator(ready).first().waitFor()
  await expect.poll(() => page.getByText("Loading…").count()).toBe(0)
}

/** What a screen reader gets, without what is another one in each run: ids, times and lengths of time. */
export const withoutTimes = (read: string): string =>
  read
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "…")
    .replaceAll(/\d+ tokens? a second/g, "<speed>")
    // Which bars have plans, and where their axis begins, depends on the time of day.
    .replaceAll(/(- list "[^"]*, over time":)(?:\n {4,}.*)+/g, "$1 …")
    .replaceAll(/\b(since|until)=[^&\s]*/g, "$1=…")
    .replaceAll(/(plan|session|task|replica)_[0-9a-f-]{6,}/g, "$1_…")
    .replaceAll(/\b(?=[0-9a-f]*\d)[0-9a-f]{8,9}\b/g, "…")
    .replaceAll(/(?:< ?)?\d[\d.,]* (?:ms|s|min|h)\b(?: \d+ (?:s|min))?(?: ago)?/g, "<time>")
    .replaceAll(/\b\d+ days? ago\b/g, "<time>")
    .replaceAll(/\b(?:just )?now\b/g, "<time>")
    .replaceAll(/\b\d{4}-\d\d-\d\d\b/g, "<day>")
    .replaceAll(/(127\.0\.0\.1):\d+/g, "$1:…")
    .replaceAll(/\d+\/\d+\/\d+, \d+:\d+:\d+ [AP]M/g, "<time>")
    .replaceAll(/\b\d\d:\d\d(?::\d\d)? [AP]M/g, "<time>")
    .replaceAll(/\bup to \d+\b/g, "up to …")
