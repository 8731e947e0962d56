import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import projects from "./vitest.workspace.ts"

/** Files that take 10 s or more, and are small. Vitest begins with the largest files: these would be the last, with nothing beside them. */
const long =
  /\/(FileKills|Killing|LiveReplay|Maintenance|NewFolder|Pictures|ScheduleRestore|Start|StoreCases|WebhookKills)\.test\.ts$/

class LongFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const isLong = ({ moduleId }: TestSpecification) => long.test(moduleId)
    const projects = Map.groupBy(await super.sort(files), ({ project }) => project.name)
    return Array.from(projects.values()).flatMap((sorted) => [
      ...sorted.filter(isLong),
      ...sorted.filter((file) => !isLong(file))
    ])
  }
}

export default defineConfig({
  test: {
    projects,
    sequence: { sequencer: LongFirst },
    // Vitest leaves a core free. Many files wait for processes and for timers of databases most of the time.
    maxWorkers: Math.max(4, availableParallelism() - 1),
    // The files of a worker share their modules: to load them again for each file was half of the CPU of all tests.
    isolate: false,
    // Node.js strips types itself. Vite would transform each module, and look up each name that it takes from others: 4 to 10 % of the CPU.
    experimental: { viteModuleRunner: false, nodeLoader: false },
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
