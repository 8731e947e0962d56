import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as NewFolder from "../../src/embedded/internal/NewFolder.ts"
import { temporaryFolder } from "../stores.ts"

const script = fileURLToPath(import.meta.resolve("./makeNewFolder.ts"))

/** Every folder in the folder, and every file with what is in it. */
const contentOf = (folder: string) =>
  new Map(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .map((entry) => [join(entry.parentPath, entry.name), entry.isFile()] as const)
      .map(([path, isFile]) => [path.slice(folder.length), isFile ? readFileSync(path, "base64") : undefined])
  )

describe("the packed folder of a new database", () => {
  // When it fails, PGlite makes another folder than before: run the script again.
  it.live("is the one that PGlite makes", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const [packed, expected, actual] = [join(folder, "packed"), join(folder, "expected"), join(folder, "actual")]
      execFileSync(process.execPath, [script, packed, "1"])
      NewFolder.unpack(expected, packed)
      NewFolder.unpack(actual)
      const content = contentOf(expected)
      assert.isAbove(content.size, 300)
      assert.deepStrictEqual(contentOf(actual), content)
    }).pipe(Effect.scoped)
  )
})
