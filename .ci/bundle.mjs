import { copyFileSync, cpSync, existsSync, rmSync, symlinkSync } from "node:fs"
import { createRequire, isBuiltin } from "node:module"
import { basename, dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { build } from "vite"
import { builtConsole, builtDocs, bundle, root } from "./setup.mjs"

/** It stays where it is, and reads files beside its own. */
const left = /^@electric-sql\/pglite(\/|$)/

/** What operators install beside the gateway. */
const installed = "@aws-sdk/client-s3"

const leave = {
  name: "leave",
  enforce: "pre",
  async resolveId(source, importer) {
    if (source === installed) return { id: source, external: true }
    if (!left.test(source)) return undefined
    const { id } = await this.resolve(source, importer, { skipSelf: true })
    return { id: pathToFileURL(id).href, external: true }
  }
}

/**
 * Modules around two of CommonJS that name what they export. Undici would lose its names behind an `import()`. An import of `node:http` reads each
 * of its names, and these three load the Undici of Node.js: a tenth of the CPU of a start.
 */
const around = "\0around-"
const slow = new Set(["WebSocket", "CloseEvent", "MessageEvent"])
const nameExports = {
  name: "name-exports",
  enforce: "pre",
  async resolveId(source, importer) {
    if (source === "node:http") return around + source
    if (source !== "undici") return undefined
    const { id } = await this.resolve(source, importer, { skipSelf: true })
    return around + id
  },
  load(id) {
    if (!id.startsWith(around)) return undefined
    const path = id.slice(around.length)
    const isNode = isBuiltin(path)
    const names = Object.keys(createRequire(import.meta.url)(path)).filter((name) => !(isNode && slow.has(name)))
    return [
      isNode ? `const all = process.getBuiltinModule("${path}")` : `import all from ${JSON.stringify(path)}`,
      "export default all",
      ...names.map((name) => `export const ${name} = all.${name}`)
    ].join("\n")
  }
}

/** A process that starts collects garbage again and again before its young generation has grown: 7 % of the CPU of a start. */
const young = `import { setFlagsFromString } from "node:v8"\nsetFlagsFromString("--semi-space-growth-factor=16")\n`

// Writes the gateway and its packages as a few files of JavaScript, which start in a third of the time.
const folder = dirname(bundle)
await build({
  root,
  configFile: false,
  logLevel: "error",
  plugins: [leave, nameExports],
  ssr: { noExternal: true },
  build: {
    ssr: true,
    outDir: folder,
    minify: false,
    rolldownOptions: {
      input: {
        [basename(bundle, ".mjs")]: join(root, "apps/gateway/src/main.ts"),
        // Tests run commands in one process.
        Cli: join(root, "apps/gateway/src/cli/Cli.ts"),
        // The sources find these beside them.
        ValidationWorker: join(root, "packages/runtime/src/tool/internal/ValidationWorker.ts"),
        PostgresWorker: join(root, "packages/storage-sql/src/embedded/internal/PostgresWorker.ts")
      },
      output: {
        entryFileNames: "[name].mjs",
        chunkFileNames: "[name]-[hash].mjs",
        banner: ({ fileName }) => (fileName === basename(bundle) ? young : "")
      }
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
// It is found beside the bundle.
const modules = join(folder, "../../node_modules")
rmSync(modules, { force: true })
symlinkSync(join(root, "apps/gateway/node_modules"), modules)
