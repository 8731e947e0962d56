import type { JsonSchema } from "../http/Operations.ts"
import type { Draw } from "./Draw.ts"

/** JSON that no value has: it is written as it stands. */
class Raw {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const repeat = (text: string, times: number) => text.repeat(times)

const strange = [
  "",
  " ",
  "\0",
  "a\0b",
  "\ud800",
  "x\udfff\ud83d",
  "\u202e\u2066\ufeff",
  "Z̴͎a̷lgo",
  "👩‍👩‍👧‍👦",
  "İıſK",
  "../../etc/passwd",
  "%00%2e%2e%2f",
  "'; drop table plans; --",
  "${jndi:ldap://127.0.0.1:9/}",
  "{{7*7}}",
  "<script>alert(1)</script>",
  "\r\nX-Injected: 1\r\n\r\n",
  "__proto__",
  "constructor",
  "toString",
  "NaN",
  "-0",
  "00000000-0000-0000-0000-000000000000",
  "did:key:z",
  "http://127.0.0.1:9/",
  "http://[::ffff:127.0.0.1]:9/",
  "http://0x7f000001:9/",
  "file:///etc/passwd",
  "data:,x",
  "\\",
  '"',
  "\u{10ffff}\uffff\u0001\u001f\u007f\u0085\u2028"
] as const

/** A string that somebody may have forgotten. */
export const text = (draw: Draw): string =>
  draw.anyOf(
    () => draw.oneOf(strange),
    () => draw.many(0, 12, () => String.fromCharCode(draw.below(65_536))).join(""),
    () => draw.many(0, 30, () => String.fromCharCode(32 + draw.below(95))).join(""),
    () => repeat(draw.oneOf(strange), draw.below(2_000))
  )

const numbers = [
  "0",
  "-0",
  "1e400",
  "-1e400",
  "1e-400",
  "9007199254740993",
  "18446744073709551616",
  "2147483648",
  "-1",
  "0.1",
  "1E5",
  "100.0",
  `1${repeat("0", 400)}`,
  `0.${repeat("0", 400)}1`,
  "01",
  "+1",
  ".5",
  "0x10",
  "NaN",
  "Infinity",
  "1e"
] as const

const nested = (draw: Draw): Raw => {
  const depth = draw.oneOf([10, 63, 64, 65, 1_000, 100_000])
  const [open, close] = draw.oneOf([
    ["[", "]"],
    ['{"a":', "}"],
    ['[{"":', "}]"]
  ])
  return new Raw(repeat(open, depth) + draw.oneOf(["1", "", "null"]) + (draw.chance(80) ? repeat(close, depth) : ""))
}

const value = (draw: Draw): unknown =>
  draw.anyOf<unknown>(
    () => text(draw),
    () => text(draw),
    () => new Raw(draw.oneOf(numbers)),
    () => draw.oneOf([null, true, false, [], {}, [[]], [null], ""]),
    () => nested(draw),
    () => repeat("x", draw.oneOf([200, 201, 513, 4_097, 100_001, 200_001])),
    () => draw.many(0, draw.oneOf([3, 70, 1_001, 60_000]), (index) => (index % 2 === 0 ? index : "")),
    () => Object.fromEntries(draw.many(0, draw.oneOf([3, 20, 5_000]), (index) => [`k${index}`, index])),
    () => new Raw(`{"__proto__":{"isAdmin":true},"constructor":{"prototype":1},"${draw.oneOf(["a", "\\u0000"])}":1}`),
    () => new Raw(draw.oneOf(['"\\ud800"', '"\\u0000"', '"\\x41"', '"\n"', "'a'", "undefined", "/**/1", '"', "[1,]"]))
  )

/** A valid value, more or less: only what a schema says of shapes and limits is respected. */
export const valid = (draw: Draw, schema: JsonSchema, definitions: Readonly<Record<string, JsonSchema>>): unknown => {
  const of = (part: JsonSchema): unknown => {
    if (part.$ref !== undefined) return of(definitions[part.$ref.split("/").at(-1) ?? ""] ?? {})
    if (part.enum !== undefined) return draw.oneOf(part.enum)
    if (part.anyOf !== undefined) return of(draw.oneOf(part.anyOf))
    const { minimum = 0, maximum = 2 ** 31, required = [] } = part
    switch (part.type) {
      case "object": {
        const entries = Object.entries(part.properties ?? {})
        const kept = entries.filter(([name]) => required.includes(name) || draw.chance(30))
        return Object.fromEntries(kept.map(([name, field]) => [name, /url|endpoint/.test(name) ? nowhere : of(field)]))
      }
      case "array":
        return draw.many(0, 2, () => of(part.items ?? {}))
      case "integer":
      case "number":
        return draw.oneOf([minimum, maximum, minimum + draw.below(1_000)])
      case "boolean":
        return draw.chance(50)
      default:
        return draw.oneOf(["a", "b2", "c.d-e", `did:key:z${draw.below(100)}`, "What holds?"])
    }
  }
  return of(schema)
}

/** Where nobody listens. */
const nowhere = "http://127.0.0.1:9/"

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Raw)

/** The same value with something else somewhere in it. */
const spoil = (draw: Draw, whole: unknown): unknown => {
  if (draw.chance(10)) return value(draw)
  if (Array.isArray(whole) && whole.length > 0 && draw.chance(80)) {
    const at = draw.below(whole.length)
    return whole.map((entry: unknown, index) => (index === at ? spoil(draw, entry) : entry))
  }
  if (isRecord(whole)) {
    const names = Object.keys(whole)
    const at = draw.below(names.length + 1)
    if (at === names.length) return { ...whole, [text(draw)]: value(draw) }
    return Object.fromEntries(
      Object.entries(whole).map(([name, field], index) => [name, index === at ? spoil(draw, field) : field])
    )
  }
  return value(draw)
}

const write = (draw: Draw, whole: unknown): string => {
  if (whole instanceof Raw) return whole.text
  if (Array.isArray(whole)) return `[${whole.map((entry: unknown) => write(draw, entry)).join(",")}]`
  if (!isRecord(whole)) return JSON.stringify(whole)
  const fields = Object.entries(whole).map(([name, field]) => `${JSON.stringify(name)}:${write(draw, field)}`)
  const [first] = fields
  return `{${(first !== undefined && draw.chance(3) ? [...fields, first] : fields).join(",")}}`
}

const insert = (draw: Draw, bytes: Buffer, piece: Buffer) => {
  const at = draw.below(bytes.length + 1)
  return Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)])
}

/** The bytes of a body: valid, spoiled in its values, or spoiled in its text. */
export const body = (draw: Draw, schema: JsonSchema, definitions: Readonly<Record<string, JsonSchema>>): Buffer => {
  const whole = valid(draw, schema, definitions)
  const spoiled = draw.chance(75) ? spoil(draw, draw.chance(30) ? spoil(draw, whole) : whole) : whole
  const bytes = Buffer.from(write(draw, spoiled))
  if (draw.chance(75)) return bytes
  return draw.anyOf(
    () => bytes.subarray(0, draw.below(bytes.length)),
    () => insert(draw, bytes, Buffer.from(draw.many(1, 4, () => draw.below(256)))),
    () => insert(draw, bytes, Buffer.from(draw.oneOf(["\ufeff", "\0", ",", "//x\n", "\u2028", "}}", "]"]))),
    () => Buffer.from(bytes.toString(), "latin1"),
    () => Buffer.from(bytes.toString(), "utf16le"),
    () => Buffer.concat([bytes, bytes]),
    () => Buffer.concat([bytes, Buffer.alloc(draw.oneOf([1, 1_000, 9_000_000]), " ")]),
    () => Buffer.alloc(draw.oneOf([0, 1, 100_000, 8_388_609]), draw.oneOf(["[", "{", '"', "0", "\xff", "\0", "[1,"]))
  )
}
