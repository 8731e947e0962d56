import { Problem } from "@bowline/protocol/unstable/api/Problem"
import { McpError } from "@bowline/protocol/unstable/mcp/McpApi"
import { OpenAiError } from "@bowline/protocol/unstable/openai/OpenAiApi"
import { Option, Schema } from "effect"
import type { Answer } from "./Exchange.ts"
import { type HostileRequest, smuggled } from "./HostileRequest.ts"

const decodeProblem = Schema.decodeUnknownOption(Schema.fromJsonString(Problem))
const decodeMcpError = Schema.decodeUnknownOption(Schema.fromJsonString(McpError))
const decodeOpenAiError = Schema.decodeUnknownOption(Schema.fromJsonString(OpenAiError))

/** If a refused request has a larger body, the gateway closes the connection instead of reading it. */
const maxDrained = 262_144

/** What gives the inside of the gateway away. */
const leak = /node_modules|\bat .{1,80}\.[mc]?[jt]s:\d+|Effect\.|_tag/

/** Below `/v1` errors are OpenAI's, at `/mcp` those of JSON-RPC. */
const ofProtocol = ({ body, headers }: Answer): ReadonlyArray<string> | undefined => {
  const refusal = Option.getOrUndefined(decodeOpenAiError(body)) ?? Option.getOrUndefined(decodeMcpError(body))
  if (refusal === undefined) return undefined
  const { message } = refusal.error
  const code = "data" in refusal.error ? refusal.error.data?.["code"] : refusal.error.code
  return [
    ...(headers.get("content-type")?.startsWith("application/json") === true ? [] : ["an error of another type"]),
    ...(message.trim() === "" ? [`it does not say what is wrong: ${body}`] : []),
    ...(leak.test(message) ? [`it says too much: ${message}`] : []),
    ...(code === "internal" ? ["internal"] : [])
  ]
}

const A2aFailure = Schema.Struct({ code: Schema.Int, message: Schema.String })
const A2aError = Schema.Struct({ error: A2aFailure })
const decodeA2aError = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Union([A2aError, A2aFailure])))

/** Below `/a2a` they are those of its bindings. */
const ofA2a = ({ body, headers }: Answer): ReadonlyArray<string> | undefined => {
  const refusal = Option.getOrUndefined(decodeA2aError(body))
  if (refusal === undefined) return undefined
  const { code, message } = "error" in refusal ? refusal.error : refusal
  return [
    ...(/^application\/(a2a\+)?json/.test(headers.get("content-type") ?? "") ? [] : ["an error of another type"]),
    ...(message.trim() === "" ? [`it does not say what is wrong: ${body}`] : []),
    ...(leak.test(message) ? [`it says too much: ${message}`] : []),
    ...(code === 500 || body.includes('"code":"internal"') ? ["internal"] : [])
  ]
}

const ofRefusal = (answer: Answer, protocol: "a2a" | "site" | "other" | undefined): ReadonlyArray<string> => {
  const { body, headers, status } = answer
  // The site of the documentation says it to a person.
  if (protocol === "site" && status === 404 && headers.get("content-type")?.startsWith("text/html") === true) return []
  const ofEdge = protocol === "a2a" ? ofA2a(answer) : protocol === "other" ? ofProtocol(answer) : undefined
  if (ofEdge !== undefined) return ofEdge
  const problem = Option.getOrUndefined(decodeProblem(body))
  if (problem === undefined) return [`${status} without a problem document: ${body.slice(0, 300)}`]
  const { code, detail, issues = [], request_id } = problem
  const isNamed = detail.trim() !== "" && issues.every(({ message }) => message.trim() !== "")
  return [
    ...(status === problem.status ? [] : [`${status}, but the document has ${problem.status}`]),
    ...(headers.get("content-type") === "application/problem+json" ? [] : ["a problem document of another type"]),
    ...(headers.get("x-request-id") === request_id ? [] : ["another request_id than in the head"]),
    ...(isNamed ? [] : [`it does not say what is wrong: ${body}`]),
    ...(leak.test(detail) ? [`it says too much: ${detail}`] : []),
    ...(code === "internal" ? ["internal"] : [])
  ]
}

/** What is wrong with the answers to a request. */
export const problemsOf = (request: HostileRequest, answers: ReadonlyArray<Answer>): ReadonlyArray<string> => {
  const { methods, mustAnswer, pieces } = request
  const isSmall = pieces.reduce((sum, { length }) => sum + length, 0) < maxDrained
  // Node.js drops what came together with a request that asks for another protocol.
  const isPlain = isSmall && !pieces.some((piece) => /^upgrade:/im.test(piece.toString("latin1")))
  const least = isPlain && answers.at(-1)?.headers.get("connection") !== "close" ? methods.length : 1
  const sent = Buffer.concat(pieces).toString("latin1")
  const protocol = /\/a2a\b/i.test(sent)
    ? "a2a"
    : /\/(?:v1\/|mcp)/i.test(sent)
      ? "other"
      : /\/docs\b/i.test(sent)
        ? "site"
        : undefined
  return [
    ...(mustAnswer && answers.length < least ? [`${answers.length} answers to ${methods.length} requests`] : []),
    ...answers.flatMap((answer, index) => [
      ...(answer.status >= 500 && answer.status !== 503 && answer.status !== 508 ? [`status ${answer.status}`] : []),
      ...(answer.headers.get("x-request-id") === smuggled ? ["it was taken for two requests"] : []),
      ...(answer.status >= 400 && methods[index] !== "HEAD" ? ofRefusal(answer, protocol) : [])
    ])
  ]
}
