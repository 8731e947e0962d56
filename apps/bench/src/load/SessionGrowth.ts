import { Agent } from "node:http"
import type { Child } from "../process/Child.ts"
import { ask } from "./Caller.ts"

/** Plans that are measured, in the young session and in the old one: so many that every one of them compacts often. */
const measured = 300
const chunks = 32

/** What one more plan of a session with so many messages costs, to one of a session that is new. */
export const growth = async ({ url, usage }: Child, messages: number): Promise<number> => {
  const agent = new Agent({ keepAlive: true })
  const session = `growth-${performance.now()}`
  const run = async (plans: number): Promise<number> => {
    const before = await usage()
    for (let plan = 0; plan < plans; plan++) await ask(url, agent, { chunks, session })
    return ((await usage()).cpu - before.cpu) / plans
  }
  await run(30)
  const young = await run(measured)
  // A plan leaves two messages: its question and its answer.
  await run(Math.max(0, messages / 2 - 2 * measured))
  const old = await run(measured)
  agent.destroy()
  return old / young
}
