import { Array, Schema } from "effect"

const word = Schema.NonEmptyString
const uuid = Schema.String.check(Schema.isUUID())
export const metadata = Schema.optionalKey(Schema.JsonObject)
export const historyLength = Schema.optionalKey(Schema.Int)
const modes = Schema.NonEmptyArray(word)
const id = Schema.optionalKey(word)
const ids = Schema.optionalKey(Schema.NonEmptyArray(word))

const message = {
  kind: Schema.Literal("message"),
  role: Schema.Literal("user"),
  messageId: word,
  parts: Schema.NonEmptyArray(
    Schema.Union([
      Schema.Struct({ kind: Schema.Literal("text"), text: Schema.String, metadata }),
      Schema.Struct({ kind: Schema.Literal("data"), data: Schema.JsonObject, metadata }),
      Schema.Struct({ kind: Schema.Literal("file"), file: Schema.JsonObject, metadata })
    ])
  ),
  taskId: id,
  contextId: id,
  referenceTaskIds: ids,
  metadata
}
const configuration = {
  blocking: Schema.optionalKey(Schema.Boolean),
  acceptedOutputModes: Schema.optionalKey(modes),
  historyLength
}

/** The parameters of a message, as A2A 0.3 wants them. */
export const A2a03Send = Schema.Struct({
  message: Schema.Struct(message),
  configuration: Schema.optionalKey(Schema.Struct(configuration)),
  metadata
})
export type SendParams = typeof A2a03Send.Type

/** The same in bindu, where the ids are the client's. */
export const BinduSend = Schema.Struct({
  message: Schema.Struct({ ...message, messageId: uuid, taskId: uuid, contextId: uuid }),
  configuration: Schema.Struct({ ...configuration, acceptedOutputModes: modes }),
  metadata
})

const content = { metadata, filename: id, mediaType: id }

const A2a10Part = Schema.Union([
  Schema.Struct({ text: Schema.String, ...content }),
  Schema.Struct({ raw: Schema.String, ...content }),
  Schema.Struct({ url: Schema.String, ...content }),
  Schema.Struct({ data: Schema.JsonObject, ...content })
])

/** The same in A2A 1.0. */
export const A2a10Send = Schema.Struct({
  message: Schema.Struct({
    role: Schema.Literal("ROLE_USER"),
    messageId: word,
    parts: Schema.NonEmptyArray(A2a10Part),
    taskId: id,
    contextId: id,
    referenceTaskIds: ids,
    metadata
  }),
  configuration: Schema.optionalKey(
    Schema.Struct({
      returnImmediately: Schema.optionalKey(Schema.Boolean),
      acceptedOutputModes: Schema.optionalKey(modes),
      historyLength
    })
  ),
  metadata
})

const toPart = (part: typeof A2a10Part.Type): SendParams["message"]["parts"][number] => {
  const aside = part.metadata !== undefined && { metadata: part.metadata }
  if ("text" in part) return { kind: "text", text: part.text, ...aside }
  if ("data" in part) return { kind: "data", data: part.data, ...aside }
  const name = part.filename !== undefined && { name: part.filename }
  const place = "raw" in part ? { bytes: part.raw } : { uri: part.url }
  return { kind: "file", file: { ...place, ...name, mimeType: part.mediaType ?? null }, ...aside }
}

/** Scripts read a message in the words of A2A 0.3, whatever the dialect. */
export const fromA2a10 = ({ configuration, message, ...rest }: typeof A2a10Send.Type): SendParams => {
  const { returnImmediately, ...others } = configuration ?? {}
  const blocking = returnImmediately === undefined ? {} : { blocking: !returnImmediately }
  return {
    ...rest,
    message: { ...message, kind: "message", role: "user", parts: Array.map(message.parts, toPart) },
    ...(configuration !== undefined && { configuration: { ...others, ...blocking } })
  }
}
