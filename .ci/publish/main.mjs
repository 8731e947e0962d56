import { pack } from "./pack.mjs"

const problem = await pack()
if (problem !== undefined) process.stdout.write(`${problem}\n`)
