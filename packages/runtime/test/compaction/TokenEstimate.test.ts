import { TextPart, ToolCallPart, ToolResultPart } from "@bowline/domain/session/Message"
import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { countTokens } from "gpt-tokenizer/encoding/o200k_base"
import { readFileSync } from "node:fs"
import { ofImage } from "../../src/compaction/FileTokens.ts"
import * as TokenEstimate from "../../src/compaction/TokenEstimate.ts"

const count = await Effect.runPromise(TokenEstimate.forModel("openai/gpt-5"))
const truth = (text: string) => countTokens(text, { disallowedSpecial: new Set() })

const chinese = "昨天我们讨论了新的数据库迁移方案，它需要在启动时加锁，并且不能影响正在运行的会话。"
const japanese = "会議は午後三時に始まります。資料は前日までに配布してください。"
const korean = "오늘 회의에서 결정한 내용을 요약해서 보내 주세요."
const code = readFileSync(`${import.meta.dirname}/TokenEstimate.test.ts`, "utf8")

const repeated = (text: string) => text.repeat(Math.ceil(400_000 / text.length)).slice(0, 400_000)
/** Letters that make no word which the tokenizer knows. */
const rubbish = (size: number, first: number, letters: number) => {
  let state = 7
  const letter = () => String.fromCharCode(first + ((state = (state * 48_271) % 2_147_483_647) % letters))
  return Array.from({ length: size }, letter).join("")
}

describe("TokenEstimate", () => {
  it.prop(
    "is at most 15 % below the truth, and at most a word above it for each piece",
    { text: Schema.String },
    ({ text }) => {
      for (const long of [text, text.repeat(40)]) {
        assert.isAtLeast(count(long), 0.85 * truth(long))
        assert.isAtMost(count(long), Math.max(truth(long), 0.75 * long.length) + 4 * Math.ceil(long.length / 256))
      }
    }
  )

  it("is at most 15 % below the truth for text that is too long to be counted whole", () => {
    const sentence = "The 7 knots of the harbour, and what a sailor pays for each of them (in 1912), are in table B. "
    const base64 = Buffer.from(Array.from({ length: 60_000 }, (_, at) => (at * at * 31 + at * 7) % 251)).toString(
      "base64"
    )
    for (const long of [sentence.repeat(3_000), base64, `${sentence.repeat(1_000)}${base64}`]) {
      assert.isAtLeast(count(long), 0.85 * truth(long))
      assert.isAtMost(count(long), 1.6 * truth(long))
    }
  })

  it.each([
    ["Chinese", chinese],
    ["Japanese", japanese],
    ["Korean", korean],
    ["code", code]
  ])("counts %s as its tokenizer does, within a twentieth", (_, text) => {
    const long = repeated(text).slice(0, 20_000)
    assert.closeTo(count(long), truth(long), 0.05 * truth(long))
  })

  it.each([
    ["one letter", "a".repeat(400_000)],
    ["spaces", " ".repeat(400_000)],
    ["lines", "\n".repeat(400_000)],
    ["base64", rubbish(400_000, 65, 26)],
    ["Chinese without a stop", rubbish(400_000, 0x4e00, 0x5000)],
    ["half characters", "\ud83d".repeat(400_000)],
    ["families", repeated("👨‍👩‍👧‍👦")]
  ])("counts 400,000 characters of %s, where the tokenizer alone takes minutes", (_, text) => {
    assert.isAbove(count(text), 1_000)
  })

  it.each([
    [
      "prose",
      "The seven knots of the harbour, and what a sailor pays for each of them, are in the table. ".repeat(300)
    ],
    ["Chinese", chinese.repeat(300)],
    ["Japanese", japanese.repeat(300)],
    ["Korean", korean.repeat(300)],
    ["code", code]
  ])("estimates %s by its length where the app has no tokenizer, rather too high", async (_, text) => {
    const missing = Effect.promise(() => Promise.reject(new Error("ERR_MODULE_NOT_FOUND")))
    const estimated = (await Effect.runPromise(TokenEstimate.forModel("openai/gpt-5", missing)))(text)
    assert.isAtLeast(estimated, 0.85 * truth(text))
    assert.isAtMost(estimated, 2.5 * truth(text))
  })

  it("counts the special tokens of a model as text", () => {
    assert.isAbove(count("<|endoftext|><|im_start|>"), 2)
  })

  it.prop("never counts more than what needs no tokenizer", { text: Schema.String }, ({ text }) => {
    assert.isAtMost(count(text), TokenEstimate.atMost("openai/gpt-5")(text))
  })

  it.each([
    ["openai/gpt-5-mini", 1],
    ["openrouter/openai/o3", 1],
    ["azure/gpt-4o-2024-08-06", 1],
    ["openai/gpt-4-turbo", 1.3],
    ["ollama/llama3.3", 1.3],
    ["anthropic/claude-opus-4-7", 1.6],
    ["bedrock/us.anthropic.claude-sonnet-4-5", 1.6]
  ])("multiplies the count for %s by %d", (model, factor) => {
    assert.strictEqual(TokenEstimate.allowance(model), factor)
  })

  it.effect("counts more for a model whose tokenizer nobody knows", () =>
    Effect.gen(function* () {
      const other = yield* TokenEstimate.forModel("anthropic/claude-opus-4-7")
      assert.strictEqual(other(chinese), Math.ceil(1.6 * count(chinese)))
    })
  )
})

const text = (text: string, more: object = {}) => TextPart.make({ type: "text", text, ...more })

describe("an image", () => {
  // The examples of the providers' documentation.
  it.each([
    ["anthropic/claude-sonnet-4-5", 200, 200, 54],
    ["anthropic/claude-sonnet-4-5", 1_000, 1_000, 1_334],
    ["anthropic/claude-sonnet-4-5", 1_092, 1_092, 1_590],
    ["openai/gpt-4o", 1_024, 1_024, 765],
    ["openai/gpt-4o", 2_048, 4_096, 1_105],
    ["openai/gpt-5", 1_024, 1_024, 630],
    ["openai/gpt-4.1-mini", 1_024, 1_024, 1_659],
    ["openai/gpt-4.1-mini", 1_800, 2_400, 2_353],
    ["google/gemini-2.5-flash", 384, 384, 258],
    ["google/gemini-2.5-flash", 960, 540, 1_548],
    ["google/gemini-3-flash", 1_000, 1_000, 1_120],
    ["anthropic/claude-opus-4-7", 1_092, 1_092, 1_590],
    ["anthropic/claude-opus-4-7", 4_000, 4_000, 4_784]
  ] as const)("costs what its provider counts, within 20 percent: %s, %d by %d", (model, width, height, tokens) => {
    assert.closeTo(ofImage(model, width, height), tokens, 0.2 * tokens)
    const part = { type: "file", file_id: FileId.make(`file_${"0".repeat(36)}`), name: "a", bytes: 9 } as const
    const whole = { ...part, media_type: "image/png", width, height }
    const count = TokenEstimate.roughly(model)
    assert.closeTo(TokenEstimate.ofPart(count, whole), tokens, 0.2 * tokens + 8)
  })
})

describe("a page of a PDF", () => {
  const pdf = {
    type: "file",
    media_type: "application/pdf",
    name: "a.pdf",
    bytes: 9,
    width: null,
    height: null
  } as const
  const ofPages = (model: string, pages: number) =>
    TokenEstimate.ofPart(TokenEstimate.roughly(model), {
      ...pdf,
      file_id: FileId.make(`file_${"0".repeat(36)}`),
      pages
    })

  it.each([
    // Three pages have some 7,000 tokens.
    ["anthropic/claude-sonnet-4-5", 3, 7_000],
    // Pages of prose and of tables that others have had counted.
    ["anthropic/claude-haiku-4-5", 10, 20_979],
    ["anthropic/claude-haiku-4-5", 1, 2_278],
    ["google/gemini-2.5-flash", 100, 25_800],
    ["google/gemini-3-pro", 10, 5_601]
  ] as const)("costs what its provider counts, within 20 percent: %s, %d pages", (model, pages, tokens) => {
    assert.closeTo(ofPages(model, pages), tokens, 0.2 * tokens)
  })

  it("costs the image of the page as OpenAI's model counts it, besides its text", () => {
    for (const model of ["openai/gpt-4o", "openai/gpt-5"]) {
      assert.strictEqual(ofPages(model, 3), 8 + 3 * (500 + ofImage(model, 1_109, 1_568)))
    }
  })
})

describe("weigh", () => {
  const id = TaskId.make("a".repeat(36))

  it("counts what goes into a prompt, and nothing of what does not", () => {
    const call = ToolCallPart.make({
      type: "tool_call",
      task_id: id,
      tool: "search",
      input: { query: "a long question" }
    })
    const result = ToolResultPart.make({
      type: "tool_result",
      task_id: id,
      state: "completed",
      content: "x ".repeat(500)
    })
    const { parts, tokens } = TokenEstimate.weigh(count, {
      role: "assistant",
      parts: [
        text("said"),
        text("half of what was to be s", { partial: true }),
        { type: "reasoning", text: "I wonder" },
        { type: "reasoning", text: "I think", provider: "p", signature: "s" },
        call,
        result
      ]
    })
    assert.deepStrictEqual(parts.slice(0, 4), [count("said"), 0, 0, count("I think")])
    assert.isAbove(parts[4] ?? 0, count(`search${JSON.stringify(call.input)}`))
    assert.isAbove(parts[5] ?? 0, 500)
    assert.isAbove(
      tokens,
      parts.reduce((sum, part) => sum + part, 0)
    )
  })

  it("counts an image by what it shows, a PDF by its pages, and a text by its words", () => {
    const data = "A".repeat(400_000)
    const of = (media_type: string) => TokenEstimate.ofPart(count, { type: "file", media_type, data })
    assert.isBelow(of("image/png"), 2_000)
    assert.strictEqual(of("application/pdf"), 8 + 1_410 * 10)
    const stored = {
      type: "file",
      media_type: "application/pdf",
      bytes: 900_000,
      name: "a.pdf",
      width: null,
      height: null
    } as const
    const file_id = FileId.make("file_01a2209e-7ce5-75be-80d1-2446ecd8a1cd")
    assert.strictEqual(TokenEstimate.ofPart(count, { ...stored, file_id, pages: 7 }), 8 + 1_410 * 7)
    assert.strictEqual(TokenEstimate.ofPart(count, { ...stored, file_id }), 8 + 1_410 * 30)
    const words = btoa("four words of text ".repeat(100))
    assert.closeTo(TokenEstimate.ofPart(count, { type: "file", media_type: "text/plain", data: words }), 400, 20)
  })

  it.effect("weighs message by message, in order", () =>
    Effect.gen(function* () {
      const messages = ["one", "and two", "and then three"].map((said) => ({
        role: "user" as const,
        parts: [text(said)]
      }))
      const weighed = yield* TokenEstimate.weighAll(count, messages)
      assert.deepStrictEqual(
        weighed,
        messages.map((message) => TokenEstimate.weigh(count, message))
      )
    })
  )

  it.effect("lets others run while it weighs a long text, and counts no less of it than at once", () =>
    Effect.gen(function* () {
      const long = [rubbish(60_000, 65, 26), "four words of text ".repeat(3_000)]
      const message = { role: "user" as const, parts: long.map((said) => text(said)) }
      let others = 0
      yield* Effect.forkChild(
        Effect.forever(
          Effect.andThen(
            Effect.yieldNow,
            Effect.sync(() => others++)
          )
        )
      )
      const turns: Array<number> = []
      const counted: TokenEstimate.CountTokens = (text) => {
        turns.push(others)
        return count(text)
      }
      const [weighed] = yield* TokenEstimate.weighAll(counted, [message])
      assert.isAbove(new Set(turns).size, 6)
      const atOnce = TokenEstimate.weigh(count, message)
      assert.isAtLeast(weighed?.tokens ?? 0, atOnce.tokens)
      assert.isAtMost(weighed?.tokens ?? 0, atOnce.tokens * 1.01)
      turns.length = 0
      const frame = { system: long.join(" "), tools: [] }
      // At once, a text that is so long is not counted whole.
      assert.isAtLeast(yield* TokenEstimate.weighFrame(counted, frame), 0.85 * TokenEstimate.ofFrame(count, frame))
      assert.isAbove(new Set(turns).size, 6)
    })
  )
})

describe("ofPrompt", () => {
  const messages = [100, 200, 300].map((tokens) => ({ tokens }))

  it("uses what the provider has counted, and estimates only what was added", () => {
    assert.strictEqual(TokenEstimate.ofPrompt(50, messages, { tokens: 5_000, messages: 2 }), 5_300)
  })

  it("estimates all of a prompt of which the provider has counted nothing", () => {
    assert.strictEqual(TokenEstimate.ofPrompt(50, messages, undefined), 650)
  })

  it("counts the system prompt and the tools", () => {
    const tool = { name: "search", description: "Searches", inputSchema: { type: "object" } }
    const bare = TokenEstimate.ofFrame(count, { system: "Be brief", tools: [] })
    assert.isAbove(TokenEstimate.ofFrame(count, { system: "Be brief", tools: [tool] }), bare + 8)
  })
})
