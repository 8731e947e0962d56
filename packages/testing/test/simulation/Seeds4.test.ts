import { describe, it } from "@effect/vitest"
import { fixed, fresh } from "./Seeds.ts"

describe("the whole gateway under the faults of seeds, part 4", () => {
  it("keeps every rule in runs that are always the same", () => fixed(3), 600_000)

  it("keeps every rule in runs that nobody has seen yet", () => fresh(3), 36_000_000)
})
