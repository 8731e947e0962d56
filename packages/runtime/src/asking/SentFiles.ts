import type { FileReference, MessagePart } from "@bowline/domain/session/Message"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import type { QuestionPart } from "@bowline/domain/unstable/file/QuestionPart"
import { deletedPart, fileLine } from "@bowline/domain/unstable/file/QuestionPart"
import { Effect } from "effect"
import type { PlansConfig } from "../config/PlansConfig.ts"
import { isImageType } from "../provider/FileText.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import type { Input, Model } from "../provider/ModelTable.ts"
import { chunkBytes, type FileStore } from "../store/FileStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import * as ModelLimits from "./ModelLimits.ts"

/** What a provider takes of an image, unless the table or the configuration says otherwise. */
const usualImageBytes = 5_242_880

/** The same of the pages of a PDF. */
const usualPdfPages = 100

/** A text file is a part of the prompt, for every model. A larger one would be most of it. */
const maxTextBytes = 262_144

/** What a model has to take to see the file; undefined of a file that is for tools only. */
const kindOf = ({ media_type }: FileReference): Input | undefined => {
  if (isImageType(media_type)) return "image"
  if (media_type === "application/pdf") return "pdf"
  return /^text\/|^application\/(json|xml|yaml)$|\+(json|xml)$/.test(media_type) ? "text" : undefined
}

type Facts = Pick<Model, "input" | "maxImageBytes" | "maxPdfPages"> | undefined

/** Why a model does not see a file that it should: it takes no such files, or none of this size. */
const obstacle = (file: FileReference, facts: Facts): string | undefined => {
  const kind = kindOf(file)
  if (kind === undefined || kind === "text") return undefined
  if (facts?.input?.includes(kind) !== true) return `takes no ${kind === "pdf" ? "PDFs" : "images"}`
  const { maxImageBytes = usualImageBytes, maxPdfPages = usualPdfPages } = facts
  if (kind === "pdf") {
    const { pages = 0 } = file
    return pages > maxPdfPages ? `takes PDFs of ${maxPdfPages} pages at most, and this one has ${pages}` : undefined
  }
  return file.bytes > maxImageBytes
    ? `takes images of ${maxImageBytes} bytes at most, and this one has ${file.bytes}`
    : undefined
}

const factsOf = (config: PlansConfig["Service"], model: string): Facts => ModelLimits.of(config, model).facts

type Parts = ReadonlyArray<QuestionPart> | undefined

/** The first file that the model does not take, by its place in the question, and why. */
const firstObstacle = (config: PlansConfig["Service"], model: string, parts: Parts = []) => {
  const facts = factsOf(config, model)
  for (const [index, part] of parts.entries()) {
    const why = part.type === "file" ? obstacle(part, facts) : undefined
    if (part.type === "file" && why !== undefined) return { index, file: part, why }
  }
  return undefined
}

/** The models of a chain that take the files of a question: all that do not are left out, unless none does. */
export const takersOf = (
  config: PlansConfig["Service"],
  models: ReadonlyArray<string>,
  parts: Parts
): ReadonlyArray<string> => {
  const takers = models.filter((model) => firstObstacle(config, model, parts) === undefined)
  return takers.length === 0 ? models : takers
}

/** Refuses a question whose files no model of its chain takes. */
export const refuse = (
  config: PlansConfig["Service"],
  models: ReadonlyArray<string>,
  parts: Parts
): InvalidRequest | undefined => {
  const [first = "", ...others] = models
  const found = firstObstacle(config, first, parts)
  if (found === undefined || others.some((model) => firstObstacle(config, model, parts) === undefined)) return undefined
  const { file, index, why } = found
  const also = others.length === 0 ? "" : `, and its fallbacks do not take all files of the question either`
  const message = `${first} ${why}: ${file.name}, ${file.file_id}${also}`
  return new InvalidRequest({ code: "unsupported_input", issues: [{ path: ["question", index], message }] })
}

/**
 * Makes the messages of a request what its model can read: a stored file that the model takes gets its content, a text file becomes text, and any other one is a line that says what it is. Only here
 * are the bytes of a file in a message.
 */
export const make = (store: FileStore["Service"]) => {
  const read = Effect.fnUntraced(function* ({ bytes, file_id }: FileReference) {
    const chunks: Array<Uint8Array> = []
    for (let seq = 0; seq * chunkBytes < bytes; seq++) chunks.push(yield* retryWhileAway(store.chunk(file_id, seq)))
    return Buffer.concat(chunks)
  })
  const toPart = Effect.fnUntraced(function* (file: FileReference, facts: Facts): Effect.fn.Return<MessagePart> {
    const kind = kindOf(file)
    const isLine =
      kind === undefined || obstacle(file, facts) !== undefined || (kind === "text" && file.bytes > maxTextBytes)
    if (isLine) return { type: "text", text: fileLine(file) }
    const { media_type, name } = file
    return yield* read(file).pipe(
      Effect.map((content): MessagePart =>
        kind === "text"
          ? { type: "text", text: `${fileLine(file)}\n\n${content.toString("utf8")}` }
          : { type: "file", media_type, name, data: content.toString("base64") }
      ),
      Effect.catchTags({
        NotFound: () => Effect.succeed(deletedPart(file.name)),
        StorageError: () => Effect.succeed<MessagePart>({ type: "text", text: fileLine(file) })
      })
    )
  })
  return (messages: ReadonlyArray<Entry>, facts: Facts): Effect.Effect<ReadonlyArray<Entry>> => {
    if (!messages.some(({ parts }) => parts.some((part) => "file_id" in part))) return Effect.succeed(messages)
    return Effect.forEach(messages, (message) =>
      Effect.map(
        Effect.forEach(message.parts, (part) => ("file_id" in part ? toPart(part, facts) : Effect.succeed(part))),
        (parts) => ({ ...message, parts })
      )
    )
  }
}
