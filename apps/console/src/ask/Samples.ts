import type { PlanRequest } from "@bowline/client"

/** A question of the demo, and what it shows. */
export interface Sample {
  readonly title: string
  readonly shows: string
  readonly request: PlanRequest
}

const preset = "demo"

/** What the scripted provider and the peers of the demo have answers for. */
export const samples: ReadonlyArray<Sample> = [
  {
    title: "Two agents, one of them slow",
    shows: "Calls side by side, and an answer out of both.",
    request: { question: "Ask prompt and slow what a bowline is.", preset }
  },
  {
    title: "An agent that is stuck",
    shows: "A peer that never answers, and a deadline that holds.",
    request: { question: "Ask stuck what a bowline is.", preset, preferences: { timeout_ms: 20_000 } }
  },
  {
    title: "An answer that is taken back",
    shows: "A stream that breaks: its text is retracted, and the next attempt answers.",
    request: { question: "Change your mind: what is a bowline?" }
  },
  {
    title: "A call that needs your approval",
    shows: "The plan waits until you approve or reject the call.",
    request: {
      question: "Ask prompt, with my approval, what a bowline is.",
      preset,
      preferences: { approval: "always" }
    }
  },
  {
    title: "A history that gets too long",
    shows: "A compaction: a summary takes the place of older messages.",
    request: { question: "Ask prompt about bowlines until a compaction is due.", preset }
  }
]
