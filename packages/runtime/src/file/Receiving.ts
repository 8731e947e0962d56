import { FileRefused } from "@bowline/domain/plan/Refusal"
import { isUtf8 } from "node:buffer"
import { createHash } from "node:crypto"
import type { FileFacts } from "../store/FileStore.ts"
import { chunkBytes } from "../store/FileStore.ts"
import { ImageHeader } from "./ImageHeader.ts"
import * as MediaType from "./MediaType.ts"
import { PdfPages } from "./PdfPages.ts"

/** How many of the last bytes begin a character that is not whole. */
const cutBytes = (bytes: Uint8Array): number => {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? back : 0
    if (byte < 0x80) return 0
  }
  return 0
}

/**
 * A file that comes chunk by chunk: what it is, its digest, and whether it is refused. It has the memory of one chunk.
 */
export class Receiving {
  readonly #said: () => string
  readonly #digest = createHash("sha256")
  readonly #chunk = Buffer.allocUnsafeSlow(chunkBytes)
  #length = 0
  #bytes = 0
  /** The end of the chunk before, where a character was cut. */
  #rest: Uint8Array = new Uint8Array(0)
  #isText = true
  #found: ReadonlyArray<string> | undefined
  #header: ImageHeader | undefined
  #pdf: PdfPages | undefined
  refused: FileRefused | undefined

  constructor(said: () => string) {
    this.#said = () => MediaType.plainType(said())
  }

  /** Takes in bytes up to the end of the chunk, and returns those behind it. */
  fill(bytes: Uint8Array): Uint8Array {
    const taken = bytes.subarray(0, chunkBytes - this.#length)
    this.#chunk.set(taken, this.#length)
    this.#length += taken.length
    return bytes.subarray(taken.length)
  }

  get isFull(): boolean {
    return this.#length === chunkBytes
  }

  /** How many bytes have come. */
  get bytes(): number {
    return this.#bytes + this.#length
  }

  /** Looks at the chunk and returns it. It is the same memory each time. */
  next(): Uint8Array {
    const chunk = this.#chunk.subarray(0, this.#length)
    this.#bytes += this.#length
    this.#length = 0
    this.#digest.update(chunk)
    this.#lookForText(chunk)
    if (this.#found === undefined) this.#begin(chunk)
    this.#header?.push(chunk)
    this.#pdf?.push(chunk)
    if (this.#header?.size !== undefined) this.refused ??= this.#header.refused
    return chunk
  }

  /** What the whole file is. */
  end(): Pick<FileFacts, "bytes" | "sha256" | "media_type" | "width" | "height" | "pages"> | FileRefused {
    if (this.refused !== undefined) return this.refused
    if (this.#bytes === 0) return new FileRefused({ code: "invalid_file", message: "The file is empty" })
    const type = MediaType.decide(this.#said(), this.#found ?? [], this.#isText && this.#rest.length === 0)
    if (typeof type !== "string") return type
    if (this.#header?.refused !== undefined) return this.#header.refused
    const { height, width } = this.#header?.size ?? { height: null, width: null }
    const pages = this.#pdf?.pages ?? null
    return { bytes: this.#bytes, sha256: this.#digest.digest("hex"), media_type: type, width, height, pages }
  }

  #lookForText(chunk: Uint8Array): void {
    if (!this.#isText) return
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    const cut = cutBytes(bytes)
    const whole = bytes.subarray(0, bytes.length - cut)
    this.#rest = Uint8Array.from(bytes.subarray(bytes.length - cut))
    this.#isText = isUtf8(whole) && !whole.includes(0)
  }

  /** Refuses at the first bytes what they show to be wrong: the rest is not stored. */
  #begin(chunk: Uint8Array): void {
    this.#found = MediaType.typesOf(chunk)
    const type = MediaType.decide(this.#said(), this.#found, this.#isText)
    if (typeof type !== "string") this.refused = type
    else if (MediaType.isImage(type)) this.#header = new ImageHeader(type)
    else if (type === "application/pdf") this.#pdf = new PdfPages()
  }
}
