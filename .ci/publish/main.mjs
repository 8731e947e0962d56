import { checkImage } from "./image.mjs"
import { pack } from "./pack.mjs"

const problem = await pack()
const problems = problem === undefined ? await checkImage() : [problem]
if (problems.length > 0) {
  process.stdout.write(`${problems.join("\n")}\n`)
  process.exitCode = 1
}
