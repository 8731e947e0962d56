import { assert, describe, it } from "@effect/vitest"
import * as FileArguments from "../../src/tool/FileArguments.ts"

const schema = {
  type: "object",
  properties: {
    text: { type: "string" },
    picture: { type: "string", format: "bowline-file" },
    pages: {
      type: "array",
      items: {
        type: "object",
        properties: { page: { type: "string", contentMediaType: "application/pdf", contentEncoding: "base64" } }
      }
    }
  }
}

describe("the files among the arguments of a call", () => {
  it("are found where the schema marks them, at any depth, and nowhere else", () => {
    const input = { text: "file_a", picture: "file_b", pages: [{ page: "file_c", other: "file_d" }, {}], toString: "x" }
    assert.deepStrictEqual(FileArguments.find(schema, input), [
      { path: ["picture"], id: "file_b", mediaType: undefined, isBase64: false },
      { path: ["pages", 0, "page"], id: "file_c", mediaType: "application/pdf", isBase64: true }
    ])
    assert.deepStrictEqual(FileArguments.find({}, input), [])
  })

  it("are replaced by their contents in their own places", () => {
    const input = { text: "file_c", pages: [{ page: "file_c" }, { page: "file_e" }] }
    const [, last] = FileArguments.find(schema, input)
    assert.deepStrictEqual(last === undefined ? undefined : FileArguments.withContents(input, [[last, "AAAA"]]), {
      ...input,
      pages: [{ page: "file_c" }, { page: "AAAA" }]
    })
  })
})
