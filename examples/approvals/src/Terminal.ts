import { createBowline } from "@bowline/client"
import { createInterface } from "node:readline/promises"
import type { Readable, Writable } from "node:stream"

/** Asks a question of the preset `demo`, and a person about each call. Resolves with the answer. */
export const ask = async (baseUrl: string, question: string, keyboard: Readable, screen: Writable) => {
  const bowline = createBowline({ baseUrl })
  const terminal = createInterface({ input: keyboard, output: screen })
  const plan = bowline.plan({ question, preset: "demo", preferences: { approval: "always" } })
  try {
    const asked = new Set<string>()
    for await (const { event } of plan) {
      if (event !== "approval.requested") continue
      for (const { input, taskId, tool } of plan.view().approvals.filter(({ taskId }) => !asked.has(taskId))) {
        asked.add(taskId)
        screen.write(`\n${tool} wants to be called with ${JSON.stringify(input)}\n`)
        const answer = await terminal.question("Call it? y, or n and why: ")
        const isYes = /^y/i.test(answer)
        const note = isYes ? "" : answer.slice(1).trim()
        await bowline.plans.approve(
          await plan.planId,
          taskId,
          isYes ? "approve" : "reject",
          note === "" ? {} : { note }
        )
      }
    }
    return (await plan.result()).text
  } finally {
    terminal.close()
  }
}
