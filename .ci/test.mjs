import { setup } from "./setup.mjs"
import { runChecks, runExamples, runFirstHours, runPublishCheck, runServing, runTests } from "./steps.mjs"
import { useMemory } from "./temporary.mjs"

await setup()
useMemory()
// Many tests wait for most of their time: the checks run beside them, then the examples, and what is published.
const [{ passed, failed, skipped }, others] = await Promise.all([
  runTests(process.argv.slice(2)),
  runChecks({ isBeside: true }).then(async (checks) => [
    ...checks,
    ...(await runExamples()),
    // It waits for its own processes: at the lowest priority it would starve.
    ...(await runServing()),
    ...(await runPublishCheck({ isBeside: true })),
    ...(await runFirstHours({ isBeside: true }))
  ])
])

const steps = [...others, ...(failed > 0 ? ["tests"] : [])]
if (steps.length > 0) {
  process.stdout.write(`Failed: ${steps.join(", ")}\n`)
  process.exitCode = 1
}
process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`)
