// Writes 200 plans of the simulation that replay as they were, first those that did not do so once: what the next versions have to run as this one does. A release keeps its own file.
import manifest from "../../package.json" with { type: "json" }
import { writeFileSync } from "node:fs"
import { brotliCompressSync, constants } from "node:zlib"
import { read, replay } from "../../src/replay/Replay.ts"
import { simulate } from "../../src/simulation/Simulation.ts"
import { found, foundPlans } from "./FoundSeeds.ts"

const wanted = 200
const kept: Array<string> = []
const keep = async (texts: ReadonlyArray<string>) => {
  for (const text of texts) {
    const [recording] = read(Buffer.from(text))
    if (kept.length < wanted && recording !== undefined && (await replay(recording))._tag === "Same") kept.push(text)
  }
}
for (const [seed, place] of foundPlans) await keep((await simulate({ seed })).records().slice(place, place + 1))
for (let index = 0; kept.length < wanted; index++) {
  await keep((await simulate({ seed: found[index] ?? index - found.length + 1 })).records())
}
const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: 11 }
const path = new URL(`former/${manifest.version}.bowline.br`, import.meta.url)
writeFileSync(path, brotliCompressSync(kept.join(""), { params }))
