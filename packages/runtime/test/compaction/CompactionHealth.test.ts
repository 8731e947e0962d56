import { SessionId } from "@bowline/domain/session/Session"
import { assert, describe, it } from "@effect/vitest"
import { CompactionHealth } from "../../src/compaction/CompactionHealth.ts"

const session = (number: number) => SessionId.make(`session_${String(number).padStart(36, "0")}`)
const minute = 60_000

const failing = (times: number, at = 0) => {
  const health = new CompactionHealth()
  for (let failures = 0; failures < times; failures++) health.failed(session(1), at)
  return health
}

describe("CompactionHealth", () => {
  it("pauses a session after three failures in a row, for ten minutes, and no other one", () => {
    assert.isFalse(failing(2).isPaused(session(1), 0))
    const health = failing(3)
    assert.isTrue(health.isPaused(session(1), 10 * minute - 1))
    assert.isFalse(health.isPaused(session(1), 10 * minute))
    assert.isFalse(health.isPaused(session(2), 0))
  })

  it("counts from the start after a success, and after a pause", () => {
    const health = failing(2)
    health.succeeded(session(1))
    health.failed(session(1), 0)
    assert.isFalse(health.isPaused(session(1), 0))
    const paused = failing(3)
    paused.failed(session(1), 10 * minute)
    assert.isFalse(paused.isPaused(session(1), 10 * minute))
  })

  it("forgets the session that has failed longest ago when there are too many", () => {
    const health = failing(3)
    for (let other = 2; other <= 1_000; other++) health.failed(session(other), 1)
    assert.isTrue(health.isPaused(session(1), 1))
    health.failed(session(1_001), 1)
    assert.isFalse(health.isPaused(session(1), 1))
  })
})
