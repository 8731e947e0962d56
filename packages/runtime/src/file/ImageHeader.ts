import { FileRefused } from "@bowline/domain/plan/Refusal"
import { GIF } from "image-size/types/gif"
import { PNG } from "image-size/types/png"
import { WEBP } from "image-size/types/webp"

/** The largest side of an image, in pixels. */
const maxSide = 8_000

/** How many bytes of a JPEG say its size: a marker, the length of the segment, and its first fields. */
const frameBytes = 9

interface ImageSize {
  readonly width: number
  readonly height: number
}

const headers = { "image/png": PNG, "image/gif": GIF, "image/webp": WEBP }

const wrong = (message: string) => new FileRefused({ code: "invalid_file", message })

/**
 * The size of an image by its header, which is looked for in the bytes as they come: nothing is decoded. That of a JPEG stands behind profiles and previews of any length, which are skipped.
 * `image-size` reads the others; in a JPEG it looks for the next segment byte by byte, which blocks the process for long when the bytes are chosen for that.
 */
export class ImageHeader {
  readonly #type: string
  size: ImageSize | undefined
  /** Of a JPEG: how many bytes there are before the next segment, and the bytes of a segment's head that was cut. */
  #skip = 2
  #rest: Uint8Array = new Uint8Array(0)
  #isOver = false

  constructor(type: string) {
    this.#type = type
  }

  /** Takes in the next bytes. Of other images than a JPEG the first ones have to have the whole header. */
  push(bytes: Uint8Array): void {
    if (this.size !== undefined || this.#isOver) return
    if (this.#type === "image/jpeg") return this.#pushJpeg(bytes)
    this.#isOver = true
    for (const [type, { calculate }] of Object.entries(headers)) {
      if (type !== this.#type) continue
      try {
        // A copy: the reader may go on in memory that the next bytes are written to.
        this.size = calculate(Uint8Array.from(bytes.subarray(0, 64)))
      } catch {
        return
      }
    }
  }

  /** Says what is wrong with an image: behind its last byte, if its size is not known before. */
  get refused(): FileRefused | undefined {
    if (this.size === undefined) return wrong("The header of the image does not say its size")
    const { height, width } = this.size
    if (width < 1 || height < 1) return wrong("The image has no pixels")
    return width > maxSide || height > maxSide
      ? wrong(`The image is ${width}×${height}: a side may have ${maxSide} pixels at most`)
      : undefined
  }

  #pushJpeg(chunk: Uint8Array): void {
    const bytes = Buffer.concat([this.#rest, chunk.subarray(this.#skip)])
    this.#skip -= Math.min(this.#skip, chunk.length)
    this.#rest = new Uint8Array(0)
    let at = 0
    while (at + frameBytes <= bytes.length) {
      const marker = bytes.readUInt8(at + 1)
      if (bytes.readUInt8(at) !== 0xff || marker === 0xd9 || marker === 0xda) return void (this.#isOver = true)
      if (marker === 0xff) at += 1
      else if ((marker >= 0xd0 && marker <= 0xd8) || marker === 0x01) at += 2
      else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
        return void (this.size = { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) })
      } else at += 2 + bytes.readUInt16BE(at + 2)
    }
    if (at < bytes.length) this.#rest = Uint8Array.from(bytes.subarray(at))
    else this.#skip += at - bytes.length
  }
}
