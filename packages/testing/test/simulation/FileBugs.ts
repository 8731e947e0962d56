import { type FileFacts, FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Context, Effect } from "effect"
import type { Overrides } from "../../src/simulation/replica/Replica.ts"
import { plainPlan } from "../../src/simulation/scenario/Scenario.ts"
import { type Bug, scenarioOf } from "./Planting.ts"

type Files = FileStore["Service"]

const onFiles = (bug: (store: Files) => Partial<Files>): Overrides => ({
  stores: (stores) => {
    const store = Context.get(stores, FileStore)
    return Context.add(stores, FileStore, { ...store, ...bug(store) })
  }
})

const facts: FileFacts = {
  name: "file",
  purpose: null,
  media_type: "text/plain",
  bytes: 262_144,
  sha256: "cut",
  width: null,
  height: null,
  pages: null,
  created_at: "2026-01-01T00:00:00.000Z",
  expires_at: "2027-01-01T00:00:00.000Z"
}

const upload = { _tag: "Upload", at: 0, replica: 0, number: 0, pieces: 5, pauseMs: 100 } as const

export const fileBugs: Readonly<Record<string, Bug>> = {
  "a chunk that is late, and is taken for one that is stored": {
    overrides: () =>
      onFiles((store) => ({
        append: (...given) => Effect.asVoid(Effect.timeoutOption(store.append(...given), 500))
      })),
    rule: "wholeFiles",
    seeds: [120],
    scenario: scenarioOf({ ...plainPlan, acts: [upload] }, 1, {
      _tag: "StoreSlow",
      at: 0,
      replica: 0,
      ms: 2_000,
      delayMs: 800
    })
  },
  "an upload that is cut, and becomes a file": {
    overrides: () =>
      onFiles((store) => ({
        discard: (file) => Effect.orDie(Effect.asVoid(store.keep(file, facts, { caller: Infinity })))
      })),
    rule: "wholeFiles",
    seeds: [60],
    scenario: scenarioOf({ ...plainPlan, acts: [{ ...upload, cutAfter: 3 }] }, 1)
  }
}
