import { setup } from "./setup.mjs"
import { runChecks, runExamples, runTests } from "./steps.mjs"

await setup()
const checks = await runChecks()
const { passed, failed, skipped } = await runTests(process.argv.slice(2))
const examples = await runExamples()

const steps = [...checks, ...(failed > 0 ? ["tests"] : []), ...examples]
if (steps.length > 0) {
  process.stdout.write(`Failed: ${steps.join(", ")}\n`)
  process.exitCode = 1
}
process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`)
