// Writes 200 plans of the simulation that replay as they were, first those that did not do so once: what the next versions have to run as this one does. A release keeps its own file.
import manifest from "../../package.json" with { type: "json" }
import { writeFileSync } from "node:fs"
import { brotliCompressSync, constants } from "node:zlib"
import { read, replay } from "../../src/replay/Replay.ts"
import { simulate } from "../../src/simulation/Simulation.ts"
import { found } from "./FoundSeeds.ts"

const wanted = 200
const kept: Array<string> = []
for (let index = 0; kept.length < wanted; index++) {
  const run = await simulate({ seed: found[index] ?? index - found.length + 1 })
  for (const text of run.records()) {
    const [recording] = read(Buffer.from(text))
    if (kept.length < wanted && recording !== undefined && (await replay(recording))._tag === "Same") kept.push(text)
  }
}
const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: 11 }
const path = new URL(`former/${manifest.version}.bowline.br`, import.meta.url)
writeFileSync(path, brotliCompressSync(kept.join(""), { params }))
