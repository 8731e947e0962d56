import { enableCompileCache } from "node:module"

// For a start without `bin/bowline.mjs`: what is imported from here on is cached, and a second start a quarter of a second faster.
enableCompileCache()

const { run } = await import("./cli/Cli.ts")
run()
