import { copyFileSync, cpSync, existsSync, rmSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { build } from "vite"
import { builtConsole, builtDocs, bundle, root } from "./setup.mjs"

/** They stay where they are: PGlite reads files beside its own, and Undici's CommonJS would lose its names behind an `import()`. */
const left = /^(@electric-sql\/pglite|undici)(\/|$)/

const leave = {
  name: "leave",
  enforce: "pre",
  async resolveId(source, importer) {
    if (!left.test(source)) return undefined
    const { id } = await this.resolve(source, importer, { skipSelf: true })
    return { id: pathToFileURL(id).href, external: true }
  }
}

// Writes the gateway and its packages as a few files of JavaScript, which start in a third of the time.
const folder = dirname(bundle)
await build({
  root,
  configFile: false,
  logLevel: "error",
  plugins: [leave],
  ssr: { noExternal: true },
  build: {
    ssr: true,
    outDir: folder,
    minify: false,
    rolldownOptions: {
      input: {
        [basename(bundle, ".mjs")]: join(root, "apps/gateway/src/main.ts"),
        // The sources find these beside them.
        ValidationWorker: join(root, "packages/runtime/src/tool/internal/ValidationWorker.ts")
      },
      output: { entryFileNames: "[name].mjs", chunkFileNames: "[name]-[hash].mjs" }
    }
  }
})
const newFolder = "newFolder.tar.br"
copyFileSync(join(root, "packages/storage-sql/src/embedded/internal", newFolder), join(folder, newFolder))
// The pages stand two folders above, as they do for the sources.
for (const built of [builtConsole, builtDocs]) {
  const copy = join(folder, "../..", basename(built))
  rmSync(copy, { recursive: true, force: true })
  if (existsSync(built)) cpSync(built, copy, { recursive: true })
}
