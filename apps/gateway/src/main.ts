import { enableCompileCache } from "node:module"

// For a start without `bin/bowline.mjs`. Node.js caches what is imported from here on, which saves the next start a quarter of a second.
enableCompileCache()

const { run } = await import("./cli/Cli.ts")
run()
