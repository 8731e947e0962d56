import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip } from "node:zlib"
import { defineConfig, type Plugin } from "vite"

/** Writes a `.br` and a `.gz` beside every file, so that the gateway compresses nothing. */
const precompress: Plugin = {
  name: "precompress",
  async writeBundle({ dir = "" }, bundle) {
    await Promise.all(
      Object.keys(bundle).map(async (name) => {
        const path = join(dir, name)
        const content = await readFile(path)
        const [br, gz] = await Promise.all([
          promisify(brotliCompress)(content),
          promisify(gzip)(content, { level: constants.Z_BEST_COMPRESSION })
        ])
        await Promise.all([writeFile(`${path}.br`, br), writeFile(`${path}.gz`, gz)])
      })
    )
  }
}

export default defineConfig({
  root: import.meta.dirname,
  logLevel: "warn",
  plugins: [precompress],
  build: {
    outDir: "../gateway/console",
    emptyOutDir: true,
    target: "es2023",
    // The policy of the page allows no script and no style that is not a file of its own.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        // Small pages in one file compress together: each by itself repeats what the others say.
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [{ name: "pages", test: /\/src\/(operator|overview|schedule|session|approval\/WaitingPage)/ }]
        }
      }
    }
  }
})
