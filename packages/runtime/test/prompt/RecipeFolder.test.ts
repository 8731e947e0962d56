import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as RecipeFolder from "../../src/prompt/RecipeFolder.ts"
import { Recipes } from "../../src/prompt/Recipes.ts"
import { folders, recipe, reports } from "./TextFolder.ts"

/** A folder of recipes that is watched, and what is reported of it. */
const watched = Effect.fnUntraced(function* (prepare: (folder: string, outside: string) => void = () => {}) {
  const { inside, outside } = yield* folders
  prepare(inside, outside)
  const { layer, lines } = reports()
  const context = yield* Effect.provide(Layer.build(RecipeFolder.layer({ folder: inside, isOptional: false })), layer)
  const read = Effect.map(Context.get(context, Recipes), (recipes) =>
    Object.fromEntries(Array.from(recipes.values(), ({ body, name }) => [name, body]))
  ).pipe(Effect.provide(layer))
  const write = (name: string, text: string | Uint8Array) => writeFileSync(join(inside, name), text)
  return { folder: inside, lines, outside, read, write }
})

describe("a folder of recipes", () => {
  it.live("gives what its files say when a plan begins: added, changed, replaced and removed ones, too", () =>
    Effect.gen(function* () {
      const { folder, lines, read, write } = yield* watched((folder) => {
        writeFileSync(join(folder, "a.md"), recipe("alpha", "one"))
        writeFileSync(join(folder, "notes.txt"), "no recipe")
        writeFileSync(join(folder, ".a.md.swp"), "an editor's")
      })
      assert.deepStrictEqual(yield* read, { alpha: "one" })
      write("a.md", recipe("alpha", "two"))
      assert.deepStrictEqual(yield* read, { alpha: "two" })
      write("b.md", recipe("beta", "new"))
      assert.deepStrictEqual(yield* read, { alpha: "two", beta: "new" })
      write("a.tmp", recipe("alpha", "six"))
      renameSync(join(folder, "a.tmp"), join(folder, "a.md"))
      assert.deepStrictEqual(yield* read, { alpha: "six", beta: "new" })
      rmSync(join(folder, "b.md"))
      assert.deepStrictEqual(yield* read, { alpha: "six" })
      assert.deepStrictEqual(lines, [])
    }).pipe(Effect.scoped)
  )

  it.live("sees a change of the same size whose time was set back", () =>
    Effect.gen(function* () {
      const { folder, read, write } = yield* watched()
      const at = new Date("2026-01-01T00:00:00Z")
      for (const body of ["one", "two"]) {
        write("a.md", recipe("alpha", body))
        utimesSync(join(folder, "a.md"), at, at)
        assert.deepStrictEqual(yield* read, { alpha: body })
      }
    }).pipe(Effect.scoped)
  )

  it.live("reports a file that cannot be used once for each change, and keeps its recipe as it was", () =>
    Effect.gen(function* () {
      const { folder, lines, outside, read, write } = yield* watched((folder, outside) => {
        writeFileSync(join(folder, "a.md"), recipe("alpha", "one"))
        writeFileSync(join(outside, "secret.md"), recipe("secret", "planted"))
      })
      const a = join(folder, "a.md")
      const faults: ReadonlyArray<readonly [reason: string, spoil: () => void]> = [
        ["Expected a front matter between two lines ---, with name and description", () => write("a.md", "# Alpha")],
        ["It is empty", () => write("a.md", "")],
        ["It is not UTF-8", () => write("a.md", Buffer.from([0xff, 0xfe, 0x41]))],
        ["It has more than 262144 bytes", () => write("a.md", recipe("alpha", "x".repeat(262_144)))],
        ["It is a symbolic link that leads out of the folder", () => symlinkSync(join(outside, "secret.md"), a)],
        ["It does not exist", () => symlinkSync(join(folder, "gone"), a)],
        ["Its symbolic links lead in a circle", () => symlinkSync(a, a)],
        ["It is not a file", () => mkdirSync(a)],
        ["It is not a file", () => execFileSync("mkfifo", [a])]
      ]
      for (const [reason, spoil] of faults) {
        rmSync(a, { recursive: true })
        spoil()
        assert.deepStrictEqual(yield* read, { alpha: "one" }, reason)
        yield* read
        assert.deepStrictEqual(lines.splice(0), [`recipe_unusable: ${reason}`])
      }
      rmSync(a)
      write("a.md", recipe("alpha", "mended"))
      assert.deepStrictEqual(yield* read, { alpha: "mended" })
      assert.deepStrictEqual(lines, [])
    }).pipe(Effect.scoped)
  )

  it.live("follows links within it, as those of a mounted volume, of which all files change at once", () =>
    Effect.gen(function* () {
      const { folder, lines, read } = yield* watched((folder) => {
        for (const version of ["one", "two"]) {
          mkdirSync(join(folder, `..${version}`))
          writeFileSync(join(folder, `..${version}`, "a.md"), recipe("alpha", version))
        }
        symlinkSync("..one", join(folder, "..data"))
        symlinkSync("..data/a.md", join(folder, "a.md"))
      })
      assert.deepStrictEqual(yield* read, { alpha: "one" })
      symlinkSync("..two", join(folder, "..tmp"))
      renameSync(join(folder, "..tmp"), join(folder, "..data"))
      assert.deepStrictEqual(yield* read, { alpha: "two" })
      assert.deepStrictEqual(lines, [])
    }).pipe(Effect.scoped)
  )

  it.live("gives a name to the first of its files that has it, and reports the others", () =>
    Effect.gen(function* () {
      const { folder, lines, read, write } = yield* watched((folder) => {
        writeFileSync(join(folder, "b.md"), recipe("one", "of b"))
        writeFileSync(join(folder, "a.md"), recipe("one", "of a"))
      })
      assert.deepStrictEqual(yield* read, { one: "of a" })
      assert.deepStrictEqual(lines.splice(0), ["recipe_unusable: Its name one is the one of a.md"])
      rmSync(join(folder, "a.md"))
      assert.deepStrictEqual(yield* read, { one: "of b" })
      write("c.md", recipe("two", "of c"))
      yield* read
      write("b.md", recipe("two", "of b"))
      write("c.md", recipe("one", "of c"))
      assert.deepStrictEqual(yield* read, { two: "of b", one: "of c" })
      assert.deepStrictEqual(lines, [])
      write("c.md", recipe("two", "of c"))
      assert.deepStrictEqual(yield* read, { two: "of b", one: "of c" })
      assert.deepStrictEqual(lines, ["recipe_unusable: Its name two is the one of b.md"])
    }).pipe(Effect.scoped)
  )

  it.live("gives 100 recipes at most", () =>
    Effect.gen(function* () {
      const { lines, read } = yield* watched((folder) => {
        for (let index = 0; index <= 100; index++) {
          writeFileSync(join(folder, `${1_000 + index}.md`), recipe(`r${index}`, "x"))
        }
      })
      const names = Object.keys(yield* read)
      assert.deepStrictEqual([names.length, names.includes("r100")], [100, false])
      assert.deepStrictEqual(lines, ["recipe_unusable: There are more than 100 recipes"])
    }).pipe(Effect.scoped)
  )
})

describe("a folder of recipes that is not there", () => {
  it.live("keeps its recipes, if it had to be there and went away, and is reported once", () =>
    Effect.gen(function* () {
      const { folder, lines, read, write } = yield* watched()
      write("a.md", recipe("alpha", "one"))
      yield* read
      renameSync(folder, `${folder}-away`)
      assert.deepStrictEqual(yield* read, { alpha: "one" })
      assert.deepStrictEqual(yield* read, { alpha: "one" })
      assert.deepStrictEqual(lines, ["recipe_unusable: It does not exist"])
      renameSync(`${folder}-away`, folder)
      write("a.md", recipe("alpha", "two"))
      assert.deepStrictEqual(yield* read, { alpha: "two" })
    }).pipe(Effect.scoped)
  )

  it.live("has no recipes, if it is optional, until it is there", () =>
    Effect.gen(function* () {
      const { inside } = yield* folders
      const folder = join(inside, "later")
      const context = yield* Layer.build(RecipeFolder.layer({ folder, isOptional: true }))
      const names = Effect.map(Context.get(context, Recipes), (recipes) => Array.from(recipes.keys()))
      assert.deepStrictEqual(yield* names, [])
      mkdirSync(folder)
      writeFileSync(join(folder, "a.md"), recipe("alpha", "one"))
      assert.deepStrictEqual(yield* names, ["alpha"])
      rmSync(folder, { recursive: true })
      assert.deepStrictEqual(yield* names, [])
    }).pipe(Effect.scoped)
  )

  it.live("fails the start of an app that needs it", () =>
    Effect.gen(function* () {
      const folder = join((yield* folders).inside, "nowhere")
      const { message } = yield* Effect.flip(Layer.build(RecipeFolder.layer({ folder, isOptional: false })))
      assert.strictEqual(message, `${folder}: It does not exist`)
    }).pipe(Effect.scoped)
  )
})
