import { McpCommand } from "@bowline/domain/unstable/mcp/McpServer"
import { assert, it } from "@effect/vitest"
import { Schema } from "effect"
import * as KnownSecrets from "../../src/server/KnownSecrets.ts"

/** Each secret once, in their order. */
const of = (fields: object): ReadonlyArray<string> => {
  const command = Schema.decodeUnknownSync(McpCommand)({ name: "x", command: "npx", ...fields })
  return Array.from(new Set(KnownSecrets.ofCommand(command).filter((secret) => secret !== "")))
}

const ofArgs = (...args: ReadonlyArray<string>) => of({ args })

it("finds secrets among arguments, in every way that they are written", () => {
  assert.deepStrictEqual(ofArgs("--api-key=one", "--password", "two"), ["one", "two"])
  assert.deepStrictEqual(ofArgs("run", "-e", "GITHUB_TOKEN=three"), ["three"])
  assert.deepStrictEqual(ofArgs("--header", "Authorization: Bearer four"), ["Bearer four"])
  assert.deepStrictEqual(ofArgs("postgres://u:p%40ss@db/x", "--db=postgres://u:five@db/x"), ["p%40ss", "p@ss", "five"])
  assert.deepStrictEqual(ofArgs("https://x.example/?api_key=six&mode=read"), ["six"])
  assert.deepStrictEqual(ofArgs("--verbose", "server.mjs", "--token", "--port=80", "/srv/files", "a=b=c"), [])
})

it("finds secrets among variables by their names, and the passwords of URLs in others", () => {
  const env = { MY_PAT: "one", PATH_TO: "/srv", API_KEY: "two", DATABASE_URL: "postgres://u:three@db/x", CITY: "Oslo" }
  assert.deepStrictEqual(of({ env }), ["one", "two", "three"])
})
