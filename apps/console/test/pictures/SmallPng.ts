import { deflateSync, inflateSync } from "node:zlib"

/** A picture as rows of pixels, three bytes each. */
interface Pixels {
  readonly width: number
  readonly height: number
  readonly bytes: Uint8Array
}

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

const chunksOf = (png: Buffer): ReadonlyArray<{ readonly type: string; readonly data: Buffer }> => {
  const chunks = []
  for (let at = 8; at < png.length;) {
    const length = png.readUInt32BE(at)
    chunks.push({ type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) })
    at += length + 12
  }
  return chunks
}

const paeth = (a: number, b: number, c: number): number => {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)]
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c
}

/** Reads what a browser writes: 8 bits a channel, RGB or RGBA, not interlaced (PNG, second edition, clauses 9 and 11.2). */
const read = (png: Buffer): Pixels => {
  const chunks = chunksOf(png)
  const head = chunks[0]?.data ?? Buffer.alloc(13)
  const [width, height, channels] = [head.readUInt32BE(0), head.readUInt32BE(4), head[9] === 6 ? 4 : 3]
  const raw = inflateSync(Buffer.concat(chunks.filter(({ type }) => type === "IDAT").map(({ data }) => data)))
  const stride = width * channels
  const bytes = new Uint8Array(width * height * 3)
  let above = new Uint8Array(stride)
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)]
    const row = new Uint8Array(raw.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1)))
    for (let x = 0; x < stride; x++) {
      const a = x < channels ? 0 : (row[x - channels] ?? 0)
      const b = above[x] ?? 0
      const c = x < channels ? 0 : (above[x - channels] ?? 0)
      const guess = [0, a, b, (a + b) >> 1, paeth(a, b, c)][filter ?? 0] ?? 0
      row[x] = ((row[x] ?? 0) + guess) & 255
    }
    for (let x = 0; x < width; x++) bytes.set(row.subarray(x * channels, x * channels + 3), (y * width + x) * 3)
    above = row
  }
  return { width, height, bytes }
}

/** The colours that occur most, at most 256, and the nearest of them for every other one. */
const paletteOf = ({ bytes }: Pixels) => {
  const counts = new Map<number, number>()
  for (let at = 0; at < bytes.length; at += 3) {
    const colour = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0)
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  const colours = [...counts].sort((a, b) => b[1] - a[1]).map(([colour]) => colour)
  const kept = colours.slice(0, 256)
  const distance = (a: number, b: number) =>
    ((a >> 16) - (b >> 16)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2
  const index = new Map(
    colours.map((colour) => {
      let nearest = 0
      for (let one = 1; one < kept.length; one++)
        if (distance(colour, kept[one] ?? 0) < distance(colour, kept[nearest] ?? 0)) nearest = one
      return [colour, nearest]
    })
  )
  return { kept, index }
}

const crcTable = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1
  return c
})

const chunk = (type: string, data: Buffer): Buffer => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data])
  let crc = 0xffffffff
  for (const byte of body) crc = (crcTable[(crc ^ byte) & 255] ?? 0) ^ (crc >>> 8)
  const out = Buffer.alloc(body.length + 8)
  out.writeUInt32BE(data.length, 0)
  body.copy(out, 4)
  out.writeUInt32BE((crc ^ 0xffffffff) >>> 0, body.length + 4)
  return out
}

/** The same picture with 256 colours at most: a page has few, and half of the bytes is left. */
export const smaller = (png: Buffer): Buffer => {
  const pixels = read(png)
  const { height, width } = pixels
  const { index, kept } = paletteOf(pixels)
  const rows = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const at = (y * width + x) * 3
      const [r = 0, g = 0, b = 0] = pixels.bytes.subarray(at, at + 3)
      rows[y * (width + 1) + 1 + x] = index.get((r << 16) | (g << 8) | b) ?? 0
    }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 3, 0, 0, 0], 8)
  const palette = Buffer.from(kept.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]))
  return Buffer.concat([
    signature,
    chunk("IHDR", head),
    chunk("PLTE", palette),
    chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk("IEND", Buffer.alloc(0))
  ])
}
