/** OpenAI's models with the tokenizer o200k. */
export const isOpenAi = (model: string): boolean =>
  /(^|[/:])(gpt-(4o|4\.1|4\.5|[5-9]|oss)|chatgpt|o\d)/.test(model.toLowerCase())

const isGemini = (model: string): boolean => model.toLowerCase().includes("gemini")

/** From its third generation on Gemini has a fixed number of tokens for each image, and another one for each page. */
const isFixed = (model: string): boolean => /gemini-([3-9]|\d\d)/.test(model.toLowerCase())

/** Tokens that most models count for an image of usual size. */
const usual = 1_600

/** What Anthropic counts: an image has at most so many pixels a side, and so many tokens of 750 pixels. */
const byArea = (width: number, height: number, side: number, tokens: number): number => {
  const scale = Math.min(1, side / Math.max(width, height), Math.sqrt((tokens * 750) / (width * height)))
  return Math.ceil((width * scale * height * scale) / 750)
}

/** What OpenAI's smaller models count: patches of 32 pixels, at most 1,536 of them. */
const byPatches = (width: number, height: number, factor: number): number =>
  Math.ceil(Math.min(1_536, Math.ceil(width / 32) * Math.ceil(height / 32)) * factor)

/** What OpenAI's other models count: tiles of 512 pixels, of an image whose shorter side has 768 at most. */
const byTiles = (width: number, height: number, base: number, tile: number): number => {
  const whole = Math.min(1, 2_048 / Math.max(width, height))
  const scale = whole * Math.min(1, 768 / (Math.min(width, height) * whole))
  return base + tile * Math.ceil((width * scale) / 512) * Math.ceil((height * scale) / 512)
}

/** What Gemini counts before its third generation: 258 for a small image, and for each tile of a larger one, of two thirds of the shorter side. */
const byCrops = (width: number, height: number): number => {
  if (width <= 384 && height <= 384) return 258
  const tile = Math.max(256, Math.min(768, Math.floor(Math.min(width, height) / 1.5)))
  return 258 * Math.ceil(width / tile) * Math.ceil(height / tile)
}

/**
 * Tokens of an image of this size, by the formula that the provider of the model publishes in its guide to images; without a size those of a usual image. Models of others count as Anthropic does.
 */
export const ofImage = (model: string, width: number | null, height: number | null): number => {
  if (isFixed(model)) return 1_120
  if (width === null || height === null) return usual
  if (isGemini(model)) return byCrops(width, height)
  const name = model.toLowerCase()
  if (/gpt-(4\.1|5)-nano/.test(name)) return byPatches(width, height, 2.46)
  if (/gpt-(4\.1|5)-mini/.test(name)) return byPatches(width, height, 1.62)
  if (/o4-mini/.test(name)) return byPatches(width, height, 1.72)
  if (/gpt-5/.test(name)) return byTiles(width, height, 70, 140)
  if (/gpt-4o-mini/.test(name)) return byTiles(width, height, 2_833, 5_667)
  if (/(^|[/:])o[134]/.test(name)) return byTiles(width, height, 75, 150)
  if (isOpenAi(name)) return byTiles(width, height, 85, 170)
  return /opus-4-[7-9]/.test(name) ? byArea(width, height, 2_576, 4_784) : byArea(width, height, 1_568, 1_600)
}

/** A page of prose in A4, with tokens of o200k. A page seldom has fewer bytes than this. */
const page = { text: 500, width: 1_109, height: 1_568, bytes: 30_000 }

/** How many pages a PDF of so many bytes may have, where it does not say it. */
export const pagesIn = (bytes: number): number => Math.ceil(bytes / page.bytes)

/**
 * Tokens of the pages of a PDF, whose text takes `allowance` times the tokens of o200k.
 *
 * - Gemini counts a page as an image of 258 tokens, and from its third generation on of 560; its text costs nothing (ai.google.dev, document processing and media resolution).
 * - Anthropic gives the text and an image of each page, some 7,000 tokens for three pages (platform.claude.com, PDF support). Pages of prose and of tables are within 20 % of that.
 * - OpenAI gives both, too (developers.openai.com, PDF files), and says no number: the image is counted by its formula.
 */
export const ofPages = (model: string, pages: number, allowance: number): number => {
  if (isGemini(model)) return pages * (isFixed(model) ? 560 : 258)
  return pages * (page.text * allowance + ofImage(model, page.width, page.height))
}
