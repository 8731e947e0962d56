import { assert, it } from "@effect/vitest"
import { fileName } from "../../src/file/StoredFile.ts"

it("a name of a file is a text without a path, control characters and marks of direction, of 255 bytes at most", () => {
  const names: ReadonlyArray<readonly [given: string, kept: string]> = [
    ["picture.png", "picture.png"],
    ["../../etc/passwd", "passwd"],
    ["C:\\temp\\a b.txt", "a b.txt"],
    ["a\r\nSet-Cookie: x\0.png", "aSet-Cookie: x.png"],
    ["invoice\u202egnp.exe", "invoicegnp.exe"],
    ["  ", "file"],
    ["..", "file"],
    ["folder/", "file"],
    ["\ud800.png", "\ufffd.png"],
    ["漢".repeat(100), "漢".repeat(85)]
  ]
  for (const [given, kept] of names) assert.strictEqual(fileName(given), kept)
})
