import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"
import projects from "./vitest.workspace.ts"

export default defineConfig({
  test: {
    projects,
    // Vitest leaves a core free. Many files wait for processes and for timers of databases most of the time.
    maxWorkers: Math.max(4, availableParallelism() - 1),
    // The files of a worker share their modules: to load them again for each file was half of the CPU of all tests.
    isolate: false,
    // Tests make much that is garbage soon: with a larger young generation V8 takes 7 % less CPU. It takes as much again to look through
    // the old one, which has mostly modules, each time when it grows, and whenever a test waits.
    execArgv: [
      "--min-semi-space-size=32",
      "--max-semi-space-size=32",
      "--initial-old-space-size=512",
      "--no-memory-reducer"
    ],
    // A test that needs longer than this waits in real time, or is stuck, also on a slow machine that is busy.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // What a page or a process comes to takes its time on a busy machine, too.
    expect: { poll: { timeout: 120_000 } },
    unstubEnvs: true,
    restoreMocks: true
  }
})
