#!/usr/bin/env node
import module from "node:module"

const [major, minor] = process.versions.node.split(".").map(Number)
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(
    `The simulation needs Node.js 22.19 or later, and this is ${process.versions.node}. Install Node.js 24.\n`
  )
  process.exit(1)
}

module.enableCompileCache()

// The sources of a checkout, and what was compiled of them in an installed package.
const { main } = await import("#simulate")

main()
