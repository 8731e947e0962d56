// Writes 200 plans of the simulation that replay as they were, first those that did not do so once: what the next versions have to run as this one does. A release keeps its own file.
import manifest from "../../package.json" with { type: "json" }
import { writeFileSync } from "node:fs"
import { brotliCompressSync, constants } from "node:zlib"
import { read, replay } from "../../src/replay/Replay.ts"
import { simulate } from "../../src/simulation/Simulation.ts"
import { found, foundPlans } from "./FoundSeeds.ts"

const wanted = 200
const kept: Array<string> = []
const isSame = async (text: string) => {
  const [recording] = read(Buffer.from(text))
  return recording !== undefined && (await replay(recording))._tag === "Same"
}
for (const [seed, place] of foundPlans) {
  const text = (await simulate({ seed })).records()[place]
  if (text === undefined || !(await isSame(text)))
    throw new Error(`Plan ${place} of seed ${seed} is not the same any more`)
  kept.push(text)
}
for (let index = 0; kept.length < wanted; index++) {
  const { records } = await simulate({ seed: found[index] ?? index - found.length + 1 })
  for (const text of records()) if (kept.length < wanted && (await isSame(text))) kept.push(text)
}
const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: 11 }
const path = new URL(`former/${manifest.version}.bowline.br`, import.meta.url)
writeFileSync(path, brotliCompressSync(kept.join(""), { params }))
