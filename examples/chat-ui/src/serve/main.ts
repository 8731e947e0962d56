import { servePage } from "../PageServer.ts"

const { url } = await servePage(process.env["BOWLINE_URL"] ?? "http://127.0.0.1:3774", process.env["BOWLINE_API_KEY"])
process.stderr.write(`Listening on ${url}\n`)
