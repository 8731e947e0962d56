import { ask } from "../Terminal.ts"

const [question = "Ask prompt what a bowline is."] = process.argv.slice(2)
console.log(await ask(process.env["BOWLINE_URL"] ?? "http://127.0.0.1:3774", question, process.stdin, process.stdout))
