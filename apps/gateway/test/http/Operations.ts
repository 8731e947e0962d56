import { Effect, Schema } from "effect"
import { send } from "./RunningGateway.ts"

/** The part of a JSON Schema that values are made by. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string
  readonly enum?: readonly [unknown, ...ReadonlyArray<unknown>]
  readonly anyOf?: readonly [JsonSchema, ...ReadonlyArray<JsonSchema>]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
  readonly items?: JsonSchema
  readonly minimum?: number
  readonly maximum?: number
}

/** A route with a method, as the gateway describes it. */
export interface Operation {
  readonly method: string
  readonly path: string
  readonly parameters: ReadonlyArray<{ readonly in: string; readonly name: string }>
  readonly body: JsonSchema | undefined
}

const Documented = Schema.Struct({
  parameters: Schema.Array(Schema.Struct({ in: Schema.String, name: Schema.String })),
  requestBody: Schema.optionalKey(
    Schema.Struct({ content: Schema.Record(Schema.String, Schema.Struct({ schema: Schema.Any })) })
  )
})
const decode = Schema.decodeUnknownEffect(
  Schema.Struct({
    paths: Schema.Record(Schema.String, Schema.Record(Schema.String, Documented)),
    components: Schema.Struct({ schemas: Schema.Record(Schema.String, Schema.Any) })
  })
)

/** Every operation of the gateway's own OpenAPI document, so that none is left out, with the schemas that their bodies refer to. */
export const operationsOf = Effect.fnUntraced(function* (url: string) {
  const { components, paths } = yield* decode((yield* send(`${url}/openapi.json`)).body)
  const definitions: Readonly<Record<string, JsonSchema>> = components.schemas
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters, requestBody }]): Operation => {
      const [content] = Object.values(requestBody?.content ?? {})
      return { method: method.toUpperCase(), path, parameters, body: content?.schema as JsonSchema | undefined }
    })
  )
  return { definitions, operations }
})
