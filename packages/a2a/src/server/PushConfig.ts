import { Result, Schema } from "effect"
import type { Metadata } from "./ServedTask.ts"

/** How a client spells what it sends: the JSON of 1.0, of JSON-RPC of 0.3, and of HTTP+JSON of 0.3. */
export type Wire = "1.0" | "0.3" | "proto"

/** A place that a client wants to be notified at. What it left empty is not there. */
export interface PushConfig {
  readonly id?: string
  readonly url: string
  readonly token?: string
  /** The scheme of the `Authorization` header. */
  readonly scheme?: string
  readonly credentials?: string
}

/** What is shown of a place to notify: never its credentials. */
export interface ShownConfig {
  readonly id: string
  readonly url: string
  readonly scheme: string | null
}

const given = <S extends Schema.Constraint>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))
const matching = (pattern: RegExp, longest: number, message: string) =>
  given(Schema.String.check(Schema.makeFilter((text) => (text.length <= longest && pattern.test(text)) || message)))

const isUrl = (text: string): boolean => {
  if (text.length > 2_048 || !/^https?:\/\/[\x21-\x7e]+$/i.test(text) || !URL.canParse(text)) return false
  const { password, username } = new URL(text)
  return username === "" && password === ""
}

const secret = matching(/^[\x20-\x7e]*$/, 4_096, "Expected at most 4096 visible characters of ASCII, on one line")
const scheme = matching(/^[\w!#$%&'*+.^`|~-]*$/, 64, "Expected the name of an HTTP authentication scheme")
const config = {
  id: matching(/^[\w.:~-]*$/, 128, "Expected at most 128 letters, digits and any of . : ~ _ -"),
  url: Schema.String.check(
    Schema.makeFilter(
      (text) => isUrl(text) || "Expected an http or https URL of at most 2048 characters, without a user"
    )
  ),
  token: secret
}

export const PushConfig10 = Schema.Struct({
  ...config,
  authentication: given(Schema.Struct({ scheme, credentials: secret }))
})

/** Both bindings of 0.3 have the same. */
export const PushConfig03 = Schema.Struct({
  ...config,
  authentication: given(Schema.Struct({ schemes: given(Schema.Array(scheme.schema)), credentials: secret }))
})

const toConfig = (
  { id, token, url }: Pick<typeof PushConfig10.Type, "id" | "token" | "url">,
  scheme: string | null | undefined,
  credentials: string | null | undefined
): PushConfig => ({
  url,
  ...(id && { id }),
  ...(token && { token }),
  ...((scheme || credentials) && { scheme: scheme || "Bearer" }),
  ...(credentials && { credentials })
})

export const from10 = (sent: typeof PushConfig10.Type): PushConfig =>
  toConfig(sent, sent.authentication?.scheme, sent.authentication?.credentials)

/** Of several schemes `Bearer` is used, or else the first one. */
export const from03 = (sent: typeof PushConfig03.Type): PushConfig => {
  const { credentials, schemes } = sent.authentication ?? {}
  const bearer = schemes?.find((name) => name?.toLowerCase() === "bearer")
  return toConfig(sent, bearer ?? schemes?.[0], credentials)
}

/** A request to create a place to notify. */
export interface CreatePush {
  readonly taskId: string
  readonly config: PushConfig
}

const taskId = Schema.NonEmptyString
const decoder = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) =>
  Schema.decodeUnknownResult(schema, { errors: "all" })
const creates = {
  "1.0": decoder(Schema.Struct({ ...PushConfig10.fields, taskId })),
  "0.3": decoder(Schema.Struct({ taskId, pushNotificationConfig: PushConfig03 }))
}
const create03 = (params: unknown) =>
  Result.map(creates["0.3"](params), ({ pushNotificationConfig, taskId }) => ({
    taskId,
    config: from03(pushNotificationConfig)
  }))

type Decode<A> = { readonly [wire in Wire]: (params: unknown) => Result.Result<A, Schema.SchemaError> }

export const decodeCreate: Decode<CreatePush> = {
  "1.0": (params) => Result.map(creates["1.0"](params), (sent) => ({ taskId: sent.taskId, config: from10(sent) })),
  "0.3": create03,
  proto: create03
}

/** The task, and which of its places to notify; undefined if the client names none. */
export interface PushKey {
  readonly taskId: string
  readonly id: string | undefined
}

const key10 = decoder(Schema.Struct({ taskId, id: given(Schema.String) }))
const key03 = decoder(Schema.Struct({ id: taskId, pushNotificationConfigId: given(Schema.String) }))
const decodeKey10 = (params: unknown) =>
  Result.map(key10(params), ({ id, taskId }): PushKey => ({ taskId, id: id || undefined }))

export const decodeKey: Decode<PushKey> = {
  "1.0": decodeKey10,
  "0.3": (params) =>
    Result.map(key03(params), ({ id, pushNotificationConfigId }) => ({
      taskId: id,
      id: pushNotificationConfigId || undefined
    })),
  // Its path names both.
  proto: decodeKey10
}

const shown03 = ({ id, scheme, url }: ShownConfig): Metadata => ({
  id,
  url,
  ...(scheme !== null && { authentication: { schemes: [scheme] } })
})

/** A place to notify, as its client gets it back. */
export const encodeConfig: { readonly [wire in Wire]: (taskId: string, config: ShownConfig) => Metadata } = {
  "1.0": (taskId, { id, scheme, url }) => ({
    taskId,
    id,
    url,
    ...(scheme !== null && { authentication: { scheme } })
  }),
  "0.3": (taskId, config) => ({ taskId, pushNotificationConfig: shown03(config) }),
  proto: (taskId, config) => ({
    name: `tasks/${taskId}/pushNotificationConfigs/${config.id}`,
    pushNotificationConfig: shown03(config)
  })
}
