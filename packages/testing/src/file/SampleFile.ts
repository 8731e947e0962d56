import { crc32 } from "node:zlib"

const pngChunk = (type: string, data: Buffer): Buffer => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data])
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  check.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, check])
}

/** A PNG that says it has this size. Of a picture it has nothing: whoever decodes it fails. Behind its header come `padding` bytes, which make it a file of its own. */
export const png = (width: number, height: number, padding = 0): Uint8Array => {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 6, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from("89504e470d0a1a0a", "hex"),
    pngChunk("IHDR", header),
    pngChunk("teSt", Buffer.alloc(padding, 7)),
    pngChunk("IEND", Buffer.alloc(0))
  ])
}

const jpegSegment = (marker: number, data: Buffer): Buffer => {
  const head = Buffer.from([0xff, marker, 0, 0])
  head.writeUInt16BE(data.length + 2, 2)
  return Buffer.concat([head, data])
}

/** A JPEG of this size, with as many segments of 64 KiB in front of it. */
export const jpeg = (width: number, height: number, segments = 0): Uint8Array => {
  const frame = Buffer.from([8, 0, 0, 0, 0, 1, 1, 0x11, 0])
  frame.writeUInt16BE(height, 1)
  frame.writeUInt16BE(width, 3)
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    jpegSegment(0xe0, Buffer.from("JFIF\0\x01\x01\0\0\x01\0\x01\0\0", "latin1")),
    ...Array.from({ length: segments }, () => jpegSegment(0xe2, Buffer.alloc(65_533, 1))),
    jpegSegment(0xc0, frame),
    Buffer.from([0xff, 0xd9])
  ])
}

/** A GIF of this size. */
export const gif = (width: number, height: number): Uint8Array => {
  const bytes = Buffer.from("GIF89a\0\0\0\0\x80\0\0\xff\xff\xff\0\0\0;", "latin1")
  bytes.writeUInt16LE(width, 6)
  bytes.writeUInt16LE(height, 8)
  return bytes
}

/** A WebP of this size, in its extended form. */
export const webp = (width: number, height: number): Uint8Array => {
  const bytes = Buffer.alloc(30)
  bytes.write("RIFF", 0, "latin1")
  bytes.writeUInt32LE(22, 4)
  bytes.write("WEBPVP8X", 8, "latin1")
  bytes.writeUInt32LE(10, 16)
  bytes.writeUIntLE(width - 1, 24, 3)
  bytes.writeUIntLE(height - 1, 27, 3)
  return bytes
}

/** A PDF that says it has this many pages. */
export const pdf = (pages = 1): Uint8Array =>
  Buffer.from(
    `%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count ${pages}>>endobj\n` +
      "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n",
    "latin1"
  )
