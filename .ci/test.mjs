import { setup } from "./setup.mjs"
import { runChecks, runExamples, runFirstHours, runPublishCheck, runServing, runTests } from "./steps.mjs"
import { useMemory } from "./temporary.mjs"

await setup()
useMemory()
// Many tests wait for most of their time: the checks and the examples run beside them, and what is published beside both, so that two processors have work to the end.
const [{ passed, failed, skipped }, checks, published] = await Promise.all([
  runTests(process.argv.slice(2)),
  runChecks({ isBeside: true }).then(async (checks) => [...checks, ...(await runExamples())]),
  runPublishCheck({ isBeside: true }).then(async (packages) => [
    ...packages,
    // It waits for its own processes: at the lowest priority it would starve.
    ...(await runServing()),
    ...(await runFirstHours({ isBeside: true }))
  ])
])

const steps = [...checks, ...published, ...(failed > 0 ? ["tests"] : [])]
if (steps.length > 0) {
  process.stdout.write(`Failed: ${steps.join(", ")}\n`)
  process.exitCode = 1
}
process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`)
