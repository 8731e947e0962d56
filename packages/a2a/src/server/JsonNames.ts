import { Schema } from "effect"

const isRecord = Schema.is(Schema.Record(Schema.String, Schema.Unknown))

/** What the client makes up: its names are its own. */
const isFree = (name: string): boolean => name === "metadata" || name === "data"

/** The name of a field of protocol buffers in JSON. */
export const jsonName = (field: string): string =>
  field.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

/**
 * The parameters with the names that JSON has for the fields of protocol buffers, such as `taskId`. A client may spell a field as the
 * protocol buffers do (`task_id`): each reader of their JSON has to take that, too.
 */
export const withJsonNames = (params: unknown): unknown => {
  if (Array.isArray(params)) return params.map(withJsonNames)
  if (!isRecord(params)) return params
  return Object.fromEntries(
    Object.entries(params).map(([field, value]) => {
      const name = jsonName(field)
      return [name, isFree(name) ? value : withJsonNames(value)]
    })
  )
}
