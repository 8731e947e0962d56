import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { programs } from "./Blocks.ts"

// Every block of TypeScript becomes a module beside the tests, whose packages it may import: the type check reads it with everything else. What a
// block only shows is exported, so that it is used.
const folder = join(import.meta.dirname, "blocks")
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder)
for (const { code, place } of programs) {
  writeFileSync(
    join(folder, `${place.replaceAll(/[/:.]/g, "_")}.ts`),
    `// ${place}\n${code.replaceAll(/^const /gm, "export const ")}\nexport {}\n`
  )
}
