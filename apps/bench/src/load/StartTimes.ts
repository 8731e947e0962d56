import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startGateway } from "../process/Child.ts"
import { median } from "./LoadWindow.ts"

const rounds = 5

/** Milliseconds from the start of a gateway on an embedded database until it is ready: with a new folder, and the median of later starts. */
export const startTimes = async (environment: {
  readonly [name: string]: string
}): Promise<{ readonly first: number; readonly later: number }> => {
  const folder = await mkdtemp(join(tmpdir(), "bowline-bench-"))
  const start = async (): Promise<number> => {
    const began = performance.now()
    await using _ = await startGateway({ ...environment, BOWLINE_DATA_DIR: join(folder, "data") })
    return performance.now() - began
  }
  const first = await start()
  const later: Array<number> = []
  while (later.length < rounds) later.push(await start())
  await rm(folder, { recursive: true })
  return { first, later: median(later) }
}
