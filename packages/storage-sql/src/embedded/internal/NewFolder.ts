import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { brotliDecompressSync } from "node:zlib"

const blockSize = 512

/** More than the archive has: it is then unpacked in one piece, without a second copy. */
const chunkSize = 33_554_432

/** The folders and files of a tar archive, in order; a folder has no content. */
function* entriesOf(tar: Buffer) {
  for (let at = 0; tar[at] !== undefined && tar[at] !== 0;) {
    const field = (from: number, to: number) => tar.toString("latin1", at + from, at + to).replace(/\0.*$/s, "")
    const start = at + blockSize
    const size = Number.parseInt(field(124, 136), 8)
    yield { path: field(0, 100), content: field(156, 157) === "5" ? undefined : tar.subarray(start, start + size) }
    at = start + Math.ceil(size / blockSize) * blockSize
  }
}

/** Made by `test/embedded/makeNewFolder.ts`. */
const packed = new URL("newFolder.tar.br", import.meta.url)

/** The folder of a new database, as a tar archive. */
export const archive = (from: URL | string = packed): Buffer => brotliDecompressSync(readFileSync(from), { chunkSize })

/** Unpacks the folder of a new database. It is synchronous: nothing else runs yet, and a thousand small waits take longer. */
export const unpack = (folder: string, from?: URL | string): void => {
  mkdirSync(folder, { mode: 0o700 })
  for (const { path, content } of entriesOf(archive(from))) {
    if (content === undefined) mkdirSync(join(folder, path), { recursive: true, mode: 0o700 })
    else writeFileSync(join(folder, path), content, { mode: 0o600 })
  }
}
