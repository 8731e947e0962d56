import { setup } from "./setup.mjs"
import { runChecks } from "./steps.mjs"

await setup()
const failed = await runChecks()
if (failed.length > 0) process.exitCode = 1
