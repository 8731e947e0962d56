#!/usr/bin/env node
// JavaScript, and the compile cache first: Node.js then never loads its TypeScript stripper, which keeps 17 MiB.
import module from "node:module"

const [major, minor] = process.versions.node.split(".").map(Number)
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(
    `Bowline needs Node.js 22.19 or later, and this is ${process.versions.node}. Install Node.js 24.\n`
  )
  process.exit(1)
}

// Half of them look names up. A name server that does not answer holds one for seconds: with the usual four, two such names would stop every connection.
process.env.UV_THREADPOOL_SIZE ??= "32"

module.enableCompileCache()

// The sources of a checkout, and what was compiled of them in an installed package.
await import("#main")
