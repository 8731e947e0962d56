import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"
import projects from "./vitest.workspace.ts"

export default defineConfig({
  test: {
    projects,
    // Vitest leaves a core free: on a machine with two that would be one file at a time.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    // A test that needs longer than this waits in real time, or is stuck.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    unstubEnvs: true,
    restoreMocks: true
  }
})
