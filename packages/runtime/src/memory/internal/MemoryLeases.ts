import { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import { Clock, Duration, Effect } from "effect"
import type { LeaseStore } from "../../store/LeaseStore.ts"
import type { Notices } from "../../store/Notices.ts"
import type { Memory } from "./Memory.ts"

export const makeLeaseStore = (memory: Memory, notices: Notices["Service"]): LeaseStore["Service"] => ({
  acquire: (id, replica, leaseTtl) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const session = memory.sessions.get(id)
      if (session === undefined) return Effect.fail(new NotFound({ what: "session" }))
      if (memory.hasLease(session, now) && session.lease?.replica !== replica) return Effect.succeedNone
      for (const { plan } of session.open) if (plan.state !== "queued") return Effect.succeedNone
      const fence = memory.lease(session, replica, now + Duration.toMillis(leaseTtl))
      memory.touch(session)
      return Effect.succeedSome(fence)
    }),
  // Every waiter is in this process, and hears of each release.
  stopWaiting: () => Effect.void,
  renew: (replica, leaseTtl) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      const expires = now + Duration.toMillis(leaseTtl)
      memory.replicas.set(replica, expires)
      const held = new Map<SessionId, number>()
      for (const { session_id, lease } of memory.sessions.values()) {
        if (lease?.replica !== replica) continue
        lease.expires = expires
        held.set(session_id, lease.fence)
      }
      // In the order in which they came.
      const living = Array.from(memory.replicas.keys()).filter((one) => memory.isAlive(one, now))
      return { held, isOldest: living[0] === replica, mayPark: true, others: living.length - 1 }
    }),
  release: (id, fence) =>
    Effect.suspend(() => {
      const session = memory.sessions.get(id)
      if (session?.lease?.fence !== fence) return Effect.void
      session.lease = undefined
      memory.touch(session)
      return notices.publish([{ _tag: "LeaseReleased", session_id: id }])
    }),
  leave: (replica) =>
    Effect.suspend(() => {
      memory.replicas.delete(replica)
      for (const session of memory.sessions.values()) {
        if (session.lease?.replica !== replica) continue
        session.lease = undefined
        memory.touch(session)
      }
      return notices.publish([{ _tag: "PlansLeft" }])
    })
})
