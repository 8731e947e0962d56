import { Result, Schema } from "effect"
import { toPart as part03, WirePart } from "../dialect/WirePart.ts"
import { toPart as part10, WirePart10 } from "../dialect/WirePart10.ts"
import type { Part } from "../task/Task.ts"
import { from03, from10, type PushConfig, PushConfig03, PushConfig10, type Wire } from "./PushConfig.ts"
import type { Metadata } from "./ServedTask.ts"

/** A message of a client, in every dialect. Ids that it left empty are not there. */
export interface SentMessage {
  readonly messageId: string
  readonly taskId?: string
  readonly contextId?: string
  readonly parts: ReadonlyArray<Part>
  readonly metadata: Metadata
  /** The kinds of answers that it takes; empty if it takes any. */
  readonly outputModes: ReadonlyArray<string>
  readonly historyLength?: number
  /** Whether the answer comes when the task is over or waits, and not at once. */
  readonly waits: boolean
  readonly push?: PushConfig
}

type Decode = (params: unknown) => Result.Result<SentMessage, Schema.SchemaError>

const given = <S extends Schema.Constraint>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))
const word = given(Schema.String)
const json = given(Schema.Record(Schema.String, Schema.Json))
const listOf = <S extends Schema.Constraint>(part: S) =>
  Schema.Array(part).check(Schema.isMinLength(1, { message: "Expected at least one part" }))

export const HistoryLength = given(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)))

/** A part of a client has to be of a kind that the protocol has: of a peer the gateway keeps any. */
const only =
  (names: ReadonlyArray<string>) =>
  (part: object): true | string =>
    names.filter((name) => Object.hasOwn(part, name)).length === 1 || `Expected one of ${names.join(", ")}`

const message = {
  messageId: Schema.NonEmptyString.check(Schema.isMaxLength(512)),
  taskId: word,
  contextId: word,
  metadata: json
}
const configuration = { acceptedOutputModes: given(Schema.Array(Schema.String)), historyLength: HistoryLength }

const role = (user: string) => Schema.Literal(user)

const Params10 = Schema.Struct({
  message: Schema.Struct({
    ...message,
    role: role("ROLE_USER"),
    parts: listOf(WirePart10.check(Schema.makeFilter(only(["text", "raw", "url", "data"]))))
  }),
  configuration: given(
    Schema.Struct({
      ...configuration,
      returnImmediately: given(Schema.Boolean),
      taskPushNotificationConfig: given(PushConfig10)
    })
  )
})

const isOf03 = ({ kind }: { readonly kind?: unknown }) =>
  kind === "text" || kind === "data" || kind === "file" || "Expected a part of kind text, data or file"

const Params03 = Schema.Struct({
  message: Schema.Struct({
    ...message,
    role: role("user"),
    parts: listOf(WirePart.check(Schema.makeFilter((part) => isOf03(part))))
  }),
  configuration: given(
    Schema.Struct({ ...configuration, blocking: given(Schema.Boolean), pushNotificationConfig: given(PushConfig03) })
  )
})

const ProtoFile = Schema.Struct({ fileWithUri: word, fileWithBytes: word, mimeType: word })

const ProtoPart = Schema.Struct({
  text: word,
  file: given(ProtoFile),
  data: given(Schema.Struct({ data: Schema.Record(Schema.String, Schema.Json) }))
}).check(Schema.makeFilter(only(["text", "file", "data"])))

const ParamsProto03 = Schema.Struct({
  message: Schema.Struct({ ...message, role: role("ROLE_USER"), content: listOf(ProtoPart) }),
  configuration: given(
    Schema.Struct({ ...configuration, blocking: given(Schema.Boolean), pushNotification: given(PushConfig03) })
  )
})

const partOfProto = ({ data, file, text }: typeof ProtoPart.Type): Part => {
  if (data != null) return { _tag: "Data", data: data.data }
  if (file == null) return { _tag: "Text", text: text ?? "" }
  const { fileWithBytes, fileWithUri, mimeType } = file
  return {
    _tag: "File",
    mediaType: mimeType || "application/octet-stream",
    ...(fileWithBytes != null && { bytes: fileWithBytes }),
    ...(fileWithUri != null && { uri: fileWithUri })
  }
}

type Sent = (typeof Params10.Type | typeof Params03.Type | typeof ParamsProto03.Type)["message"]
type Given = { readonly [key in keyof typeof configuration]?: (typeof Params10.Type.configuration & {})[key] }

const toMessage = (
  { contextId, messageId, metadata, taskId }: Sent,
  parts: ReadonlyArray<Part>,
  { acceptedOutputModes, historyLength }: Given,
  rest: Pick<SentMessage, "waits" | "push">
): SentMessage => ({
  messageId,
  ...(taskId && { taskId }),
  ...(contextId && { contextId }),
  parts,
  metadata: metadata ?? {},
  outputModes: acceptedOutputModes ?? [],
  ...(historyLength != null && { historyLength }),
  ...rest
})

const decoder = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) =>
  Schema.decodeUnknownResult(schema, { errors: "all" })

const decodes = { "1.0": decoder(Params10), "0.3": decoder(Params03), proto: decoder(ParamsProto03) }

/** Reads the parameters of a message, in the JSON of 1.0, of JSON-RPC of 0.3, and of HTTP+JSON of 0.3. */
export const decodeMessage: { readonly [wire in Wire]: Decode } = {
  "1.0": (params) =>
    Result.map(decodes["1.0"](params), ({ configuration, message }) =>
      toMessage(message, message.parts.map(part10), configuration ?? {}, {
        waits: configuration?.returnImmediately !== true,
        ...(configuration?.taskPushNotificationConfig && { push: from10(configuration.taskPushNotificationConfig) })
      })
    ),
  "0.3": (params) =>
    Result.map(decodes["0.3"](params), ({ configuration, message }) =>
      toMessage(message, message.parts.map(part03), configuration ?? {}, {
        waits: configuration?.blocking !== false,
        ...(configuration?.pushNotificationConfig && { push: from03(configuration.pushNotificationConfig) })
      })
    ),
  // Protocol buffers leave a member out that is false.
  proto: (params) =>
    Result.map(decodes.proto(params), ({ configuration, message }) =>
      toMessage(message, message.content.map(partOfProto), configuration ?? {}, {
        waits: configuration == null || configuration.blocking === true,
        ...(configuration?.pushNotification && { push: from03(configuration.pushNotification) })
      })
    )
}
