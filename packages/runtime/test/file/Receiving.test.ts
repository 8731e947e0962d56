import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { assert, describe, it } from "@effect/vitest"
import { createHash } from "node:crypto"
import { deflateSync } from "node:zlib"
import { Receiving } from "../../src/file/Receiving.ts"

/** What becomes of bytes that were sent as this type, in pieces of this many bytes. */
const receive = (said: string, bytes: Uint8Array, piece = 65_536) => {
  const receiving = new Receiving(() => said)
  let written = 0
  const next = () => {
    const chunk = receiving.next()
    if (receiving.refused === undefined) written += chunk.length
  }
  for (let at = 0; at < bytes.length; at += piece) {
    for (let rest = bytes.subarray(at, at + piece); rest.length > 0;) {
      rest = receiving.fill(rest)
      if (receiving.isFull) next()
    }
  }
  if (bytes.length % 262_144 > 0) next()
  return { facts: receiving.end(), written }
}

const text = (content: string) => Buffer.from(content)

const typeOf = (said: string, bytes: Uint8Array) => {
  const { facts } = receive(said, bytes)
  return "_tag" in facts ? facts.code : facts.media_type
}

const zip = Buffer.concat([text("PK\u0003\u0004"), Buffer.alloc(100)])
const noise = Buffer.alloc(300, 0xfe)

describe("a file that comes", () => {
  it("is what its bytes are, where nobody says what it is", () => {
    const unsaid = ["", "application/octet-stream", "application/x-www-form-urlencoded", "nonsense"]
    for (const said of unsaid) {
      assert.strictEqual(typeOf(said, SampleFile.png(3, 4)), "image/png")
      assert.strictEqual(typeOf(said, SampleFile.jpeg(3, 4)), "image/jpeg")
      assert.strictEqual(typeOf(said, SampleFile.gif(3, 4)), "image/gif")
      assert.strictEqual(typeOf(said, SampleFile.webp(3, 4)), "image/webp")
      assert.strictEqual(typeOf(said, SampleFile.pdf()), "application/pdf")
      assert.strictEqual(typeOf(said, text("BMW builds cars")), "text/plain")
      assert.strictEqual(typeOf(said, zip), "application/zip")
      assert.strictEqual(typeOf(said, noise), "application/octet-stream")
      // The magic number of JSON is a bracket.
      assert.strictEqual(typeOf(said, Buffer.concat([text("["), noise])), "application/octet-stream")
    }
  })

  it("has to be the image, the PDF or the text that it was sent as", () => {
    const right: ReadonlyArray<readonly [string, Uint8Array, string]> = [
      ["IMAGE/PNG; q=1", SampleFile.png(3, 4), "image/png"],
      ["image/jpg", SampleFile.jpeg(3, 4), "image/jpeg"],
      ["application/pdf", SampleFile.pdf(), "application/pdf"],
      ["text/html; charset=utf-8", text("<p>Knots</p>"), "text/html"],
      ["application/json", text('{"a":1}'), "application/json"],
      ["image/svg+xml", text("<svg/>"), "image/svg+xml"],
      ["text/csv", text("é,ß\n"), "text/csv"],
      ["audio/mp4", Buffer.concat([Buffer.from("0000001866747970", "hex"), text("M4A "), noise]), "audio/mp4"],
      ["application/pgp-keys", text("-----BEGIN"), "application/pgp-keys"],
      ["application/vnd.own", noise, "application/vnd.own"],
      [
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        zip,
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
      ]
    ]
    for (const [said, bytes, type] of right) assert.strictEqual(typeOf(said, bytes), type, said)
    const wrong: ReadonlyArray<readonly [string, Uint8Array]> = [
      ["image/jpeg", SampleFile.png(3, 4)],
      ["text/plain", SampleFile.png(3, 4)],
      ["text/plain", SampleFile.pdf()],
      ["application/json", SampleFile.pdf()],
      ["application/vnd.own", SampleFile.png(3, 4)],
      ["image/png", text("<script>")],
      ["image/png", noise],
      ["application/pdf", text("a letter")],
      ["text/plain", Buffer.from("café", "latin1")],
      ["text/plain", text("a\0b")],
      ["text/plain", text("aé").subarray(0, 2)],
      ["audio/mpeg", text("la la la")],
      ["audio/mpeg", zip]
    ]
    for (const [said, bytes] of wrong) assert.strictEqual(typeOf(said, bytes), "media_type_mismatch", said)
  })

  it("is text if all of it is, wherever its characters are cut", () => {
    const long = text("aé漢𝄞".repeat(40_000))
    for (const piece of [1_000, 65_537]) {
      const { facts, written } = receive("text/plain", long, piece)
      assert.deepStrictEqual(facts, {
        bytes: long.length,
        sha256: createHash("sha256").update(long).digest("hex"),
        media_type: "text/plain",
        width: null,
        height: null,
        pages: null
      })
      assert.strictEqual(written, long.length)
    }
    const broken = Buffer.concat([long, Buffer.from([0xff])])
    assert.strictEqual(typeOf("text/plain", broken), "media_type_mismatch")
    assert.strictEqual(typeOf("", broken), "application/octet-stream")
  })

  it("has the size that the header of an image says, though it stands behind profiles", () => {
    const images = [SampleFile.png(1_200, 800), SampleFile.gif(1_200, 800), SampleFile.webp(1_200, 800)]
    for (const bytes of [...images, SampleFile.jpeg(1_200, 800), SampleFile.jpeg(1_200, 800, 9)]) {
      const { facts } = receive("", bytes)
      assert.deepInclude(facts, { width: 1_200, height: 800 })
    }
    assert.deepInclude(receive("", SampleFile.jpeg(1_200, 800, 20), 65_537).facts, { width: 1_200, height: 800 })
    const garbled = SampleFile.jpeg(1_200, 800, 1).fill(1, 30)
    assert.strictEqual(typeOf("image/jpeg", garbled), "invalid_file")
    assert.strictEqual(typeOf("image/png", SampleFile.png(1_200, 800).slice(0, 18)), "invalid_file")
  })

  it("has the pages that a PDF says it has, wherever its bytes are cut, and an outline counts for nothing", () => {
    const outline =
      "4 0 obj<</Type/Outlines/First 5 0 R/Count 9000>>endobj 5 0 obj<</Title(Knots)/Count 800/Parent 4 0 R>>endobj\n"
    const tree = `<</Count 31 /Kids [${"3 0 R ".repeat(400)}] /Type /Pages>> <</Type/Pages/Kids[3 0 R]/Parent 2 0 R/Count 7>>`
    const objects = (content: Uint8Array, end = "\nendstream endobj\n") =>
      Buffer.concat([text("7 0 obj<</Type/ObjStm/N 2/First 12/Filter/FlateDecode>>\nstream\n"), content, text(end)])
    const head = Buffer.concat([
      text("%PDF-1.5\n<</Type/Catalog/Pages 2 0 R>>\n"),
      noise.subarray(0, 100),
      text(outline)
    ])
    const pagesOf = (...content: ReadonlyArray<Uint8Array>) => {
      const { facts } = receive("", Buffer.concat([head, ...content, text("startxref\n%%EOF\n")]))
      return "_tag" in facts ? facts.code : facts.pages
    }
    // The chunk ends everywhere in what tells the number.
    for (let before = 262_144 - head.length; before > 262_144 - head.length - 3_000; before -= 37) {
      assert.strictEqual(pagesOf(Buffer.alloc(before, 1), text(tree), Buffer.alloc(2_000, 1)), 31)
      assert.strictEqual(pagesOf(Buffer.alloc(before, 1), objects(deflateSync(text(tree))), Buffer.alloc(2_000, 1)), 31)
    }
    assert.isNull(pagesOf())
    assert.isNull(pagesOf(objects(noise)))
    assert.strictEqual(pagesOf(objects(noise), text(tree)), 31)
    // None of these takes long: what is inflated of them, and looked at, is bounded.
    const bomb = objects(deflateSync(Buffer.alloc(33_554_432, 32)))
    assert.strictEqual(pagesOf(bomb, objects(deflateSync(text(tree)))), 31)
    assert.isNull(pagesOf(...Array.from({ length: 8 }, () => bomb), objects(deflateSync(text(tree)))))
    assert.isNull(pagesOf(objects(Buffer.alloc(300_000, 1), "").subarray(), text(" /ObjStm stream\n".repeat(100_000))))
    assert.isNull(pagesOf(text("/Count 2 ".repeat(100_000))))
    const { facts } = receive("", SampleFile.pdf(10_000))
    assert.deepInclude(facts, { pages: 10_000 })
  })

  it("is refused by its first bytes, and nothing of it is stored, if it is an image of more than 8,000 pixels a side", () => {
    for (const bytes of [SampleFile.png(50_000, 50_000), SampleFile.png(8_001, 1), SampleFile.gif(1, 65_535)]) {
      const { facts, written } = receive("", Buffer.concat([bytes, Buffer.alloc(600_000)]))
      assert.deepInclude(facts, { _tag: "FileRefused", code: "invalid_file" })
      assert.strictEqual(written, 0)
    }
    assert.strictEqual(typeOf("", SampleFile.png(8_000, 8_000)), "image/png")
    // Decoded, it would have 1 GB and more: nobody decodes it.
    const frame = Buffer.from("2c00000000401f401f000202440100", "hex")
    const bomb = Buffer.concat([
      SampleFile.gif(8_000, 8_000).subarray(0, -1),
      ...Array.from({ length: 20 }, () => frame),
      text(";")
    ])
    assert.deepInclude(receive("", bomb).facts, { media_type: "image/gif", width: 8_000, height: 8_000 })
    const { written } = receive("image/jpeg", Buffer.concat([SampleFile.png(1, 1), Buffer.alloc(600_000)]))
    assert.strictEqual(written, 0)
  })

  it("is refused if it is empty", () => assert.strictEqual(typeOf("", new Uint8Array(0)), "invalid_file"))
})
