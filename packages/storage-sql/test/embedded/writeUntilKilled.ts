// A process that has the embedded database in the folder it is given, and writes events of one plan until it is killed. It
// prints the plan's owner and id, and then the seq of each event that is stored.
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { Effect } from "effect"
import * as SqlStore from "../../src/SqlStore.ts"
import { sessionTtl } from "../stores.ts"

const print = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

const program = Effect.gen(function* () {
  const store = yield* PlanStore
  const held = yield* Given.createHeld({ external_session_id: yield* Given.newName })
  yield* print(`${held.plan.caller}\n${held.plan.plan_id}`)
  for (let seq = 2; ; seq++) {
    const message = yield* Given.appended(`message ${seq}`)
    yield* store.commit([Given.commitOf(held, [message], [Given.row(seq, "step")])])
    yield* print(String(seq))
  }
})

const dataDir = process.argv[2] ?? ""
await Effect.runPromise(program.pipe(Effect.provide(SqlStore.layerEmbedded({ dataDir, sessionTtl }))))
