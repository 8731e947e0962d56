#!/usr/bin/env node
// JavaScript, and the compile cache first: Node.js then never loads its TypeScript stripper, which keeps 17 MiB.
import { enableCompileCache } from "node:module"

enableCompileCache()

await import("../src/main.ts")
