import { describe, it } from "@effect/vitest"
import { fixed, fresh } from "./Seeds.ts"

describe("the whole gateway under the faults of seeds, part 3", () => {
  it("keeps every rule in runs that are always the same", () => fixed(2), 600_000)

  it("keeps every rule in runs that nobody has seen yet", () => fresh(2), 36_000_000)
})
