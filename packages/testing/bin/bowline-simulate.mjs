#!/usr/bin/env node
await import("../src/simulation/SimulateCommand.ts")
