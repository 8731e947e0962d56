import type { Failure, Final } from "@bowline/domain/plan/Outcome"
import type { Plan, PlanSummary } from "@bowline/domain/plan/Plan"
import type { AskBody } from "@bowline/domain/plan/PlanRequest"
import type { GivenFork } from "@bowline/domain/unstable/plan/Fork"
import type { NewEntry, Waiting } from "@bowline/domain/plan/Inbox"
import type { PendingApproval } from "@bowline/domain/plan/Approval"
import type { Feedback } from "@bowline/domain/unstable/plan/Feedback"
import type { Overview } from "@bowline/domain/unstable/plan/Overview"
import type { SpendingRow } from "@bowline/domain/unstable/plan/SpendingRow"
import type { Credential } from "@bowline/domain/unstable/provider/Credential"
import type { Message } from "@bowline/domain/session/Message"
import type { StoredFile } from "@bowline/domain/unstable/file/StoredFile"
import type { ListedSession } from "@bowline/domain/unstable/session/ListedSession"
import type { Firing, NewSchedule, Schedule, ScheduleChange } from "@bowline/domain/unstable/schedule/Schedule"
import type { Compacted, Session } from "@bowline/domain/session/Session"
import type { Peer } from "@bowline/protocol/unstable/peer/PeersApi"
import type { SseFrame } from "@bowline/protocol/stream/SseFrame"
import type { Brand } from "effect"
import { readFileSync } from "node:fs"
import { assert, describe, expectTypeOf, it } from "vitest"
import type * as FileWire from "../../src/FileWire.ts"
import type * as ForkWire from "../../src/ForkWire.ts"
import type * as InboxWire from "../../src/InboxWire.ts"
import type * as OperatorWire from "../../src/OperatorWire.ts"
import type * as ScheduleWire from "../../src/ScheduleWire.ts"
import type * as SessionWire from "../../src/SessionWire.ts"
import type * as Wire from "../../src/Wire.ts"
import { files } from "./makeWire.ts"

/** Ids are branded in the schemas, and plain strings for the callers of the client. */
type Plain<A> =
  A extends Brand.Brand<infer _>
    ? string
    : A extends ReadonlyArray<infer Entry>
      ? ReadonlyArray<Plain<Entry>>
      : A extends object
        ? { readonly [Key in keyof A]: Plain<A[Key]> }
        : A

/** All fields, so that one that only one side has is a difference, also where it is optional. */
type Whole<A> =
  A extends ReadonlyArray<infer Entry>
    ? ReadonlyArray<Whole<Entry>>
    : A extends object
      ? { readonly [Key in keyof A]-?: Whole<A[Key]> }
      : A

const same = <A, B>() => ({
  bothWays: (isSame: [A, B, Whole<A>, Whole<B>] extends [B, A, Whole<B>, Whole<A>] ? true : false) => isSame
})

describe("Wire", () => {
  it("is what the schemas of the API are now", () => {
    for (const [path, text] of files) {
      assert.strictEqual(readFileSync(path, "utf8"), text, "Run: node packages/client/test/wire/makeWire.ts")
    }
  })

  it("has types that equal those of the schemas both ways", () => {
    same<Wire.PlanRequest, (typeof AskBody)["Encoded"]>().bothWays(true)
    same<ForkWire.GivenFork, (typeof GivenFork)["Encoded"]>().bothWays(true)
    same<Wire.Plan, (typeof Plan)["Encoded"]>().bothWays(true)
    same<Wire.PlanSummary, (typeof PlanSummary)["Encoded"]>().bothWays(true)
    same<SessionWire.Session, (typeof Session)["Encoded"]>().bothWays(true)
    same<OperatorWire.ListedSession, (typeof ListedSession)["Encoded"]>().bothWays(true)
    same<SessionWire.Message, (typeof Message)["Encoded"]>().bothWays(true)
    same<Wire.Compacted, (typeof Compacted)["Encoded"]>().bothWays(true)
    same<InboxWire.PendingApproval, (typeof PendingApproval)["Encoded"]>().bothWays(true)
    same<ScheduleWire.Schedule, (typeof Schedule)["Encoded"]>().bothWays(true)
    same<ScheduleWire.Firing, (typeof Firing)["Encoded"]>().bothWays(true)
    same<ScheduleWire.NewSchedule, (typeof NewSchedule)["Encoded"]>().bothWays(true)
    same<ScheduleWire.ScheduleChange, (typeof ScheduleChange)["Encoded"]>().bothWays(true)
    same<InboxWire.NewEntry, (typeof NewEntry)["Encoded"]>().bothWays(true)
    same<InboxWire.Waiting, (typeof Waiting)["Encoded"]>().bothWays(true)
    same<OperatorWire.Credential, (typeof Credential)["Encoded"]>().bothWays(true)
    same<OperatorWire.Peer, (typeof Peer)["Encoded"]>().bothWays(true)
    same<OperatorWire.Feedback, (typeof Feedback)["Encoded"]>().bothWays(true)
    same<OperatorWire.Overview, (typeof Overview)["Encoded"]>().bothWays(true)
    same<FileWire.StoredFile, (typeof StoredFile)["Encoded"]>().bothWays(true)
    same<OperatorWire.Spending, (typeof SpendingRow)["Encoded"]>().bothWays(true)
    same<Wire.Final, (typeof Final)["Encoded"]>().bothWays(true)
    same<Wire.Failure, (typeof Failure)["Encoded"]>().bothWays(true)
    same<Wire.PlanFrame, Plain<SseFrame>>().bothWays(true)
    expectTypeOf<Wire.PlanFrame["event"]>().toEqualTypeOf<SseFrame["event"]>()
  })
})
