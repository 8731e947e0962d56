import { png } from "@bowline/testing/unstable/file/SampleFile"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { post, send, start } from "../../http/RunningGateway.ts"
import { clients } from "./McpClients.ts"

const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }
const ann = { authorization: "Bearer key-of-ann" }
const bob = { authorization: "Bearer key-of-bob" }

const recipe = (name: string) => `---\nname: ${name}\ndescription: How to do ${name}\n---\nDo ${name}.\n`

const settings = Effect.gen(function* () {
  const recipes = yield* folderOf({ "tie.md": recipe("tie"), "cut.md": recipe("cut") })
  const permissions = { ann: { recipes: { deny: ["cut"] } } }
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ permissions }) })
  return { ...keys, BOWLINE_CONFIG: join(folder, "gateway.json"), BOWLINE_RECIPES_DIR: recipes }
})

const upload = (url: string, name: string, type: string, content: string | Uint8Array) =>
  Effect.suspend(() => {
    const form = new FormData()
    form.append("file", new File([Buffer.from(content)], name, { type }))
    return Effect.map(send(`${url}/files`, { method: "POST", headers: ann, body: form }), ({ body }) =>
      String(body["file_id"])
    )
  })

describe("what a client of MCP reads beside tools", () => {
  it.live("is the recipes that its caller may load, and its caller's answers and files", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say('{"knot":7}')], yield* settings)
      const preferences = { response_format: { type: "json_schema", schema: { type: "object" } } }
      const ask = (fields: object, headers = ann) =>
        Effect.map(
          post(`${url}/plan`, { question: "Which\nknot?", ...fields }, { ...headers, accept: "application/json" }),
          ({ body }) => String(body["plan_id"])
        )
      const plans = [yield* ask({}), yield* ask({ preferences })]
      const text = yield* upload(url, "knots.txt", "text/plain", "bowline")
      const bytes = png(2, 3)
      const image = yield* upload(url, "knot.png", "image/png", bytes)
      const others = yield* ask({}, bob)

      for (const [name, connect] of clients) {
        const client = yield* connect(url, { key: "key-of-ann" })
        yield* Effect.promise(async () => {
          const { prompts } = await client.listPrompts()
          assert.deepStrictEqual(
            prompts.map(({ name }) => name),
            ["tie"],
            name
          )
          const { messages } = await client.getPrompt({ name: "tie" })
          assert.deepStrictEqual(messages, [{ role: "user", content: { type: "text", text: "Do tie." } }])

          // Client 2 reads all pages itself.
          const resources = []
          for (let cursor: string | undefined, isLast = false; !isLast;) {
            const page = await client.listResources(cursor === undefined ? {} : { cursor })
            resources.push(...page.resources)
            cursor = page.nextCursor
            isLast = cursor === undefined
          }
          assert.deepStrictEqual(
            resources.map(({ mimeType, uri }) => [uri, mimeType]),
            [
              [`bowline://plans/${plans[1]}`, undefined],
              [`bowline://plans/${plans[0]}`, undefined],
              [`bowline://files/${image}`, "image/png"],
              [`bowline://files/${text}`, "text/plain"]
            ]
          )
          assert.lengthOf((await client.listResourceTemplates()).resourceTemplates, 2)
          const contents = await Promise.all(resources.map(({ uri }) => client.readResource({ uri })))
          assert.deepStrictEqual(
            contents.map(({ contents: [content] }) => {
              const { blob, mimeType, text } = content as Readonly<
                Record<"blob" | "mimeType" | "text", string | undefined>
              >
              return [mimeType, text ?? blob]
            }),
            [
              ["application/json", '{"knot":7}'],
              ["text/plain", '{"knot":7}'],
              ["image/png", Buffer.from(bytes).toString("base64")],
              ["text/plain", "bowline"]
            ]
          )
          for (const uri of [`bowline://plans/${others}`, "bowline://plans/plan_x", "bowline://files/x", "file:///x"]) {
            const refused = await client.readResource({ uri }).then(
              () => assert.fail(uri),
              (error: unknown) => error as { readonly code: number; readonly message: string }
            )
            assert.include(refused.message, "There is no such resource")
          }
        })
      }
    })
  )
})
