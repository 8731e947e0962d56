import { type PlanRecording, read, replay } from "@bowline/testing/replay/Replay"
import { type Child, startGateway } from "../process/Child.ts"
import { calling, type PlanRequest } from "../server/Traffic.ts"
import { median, times } from "./LoadWindow.ts"

/** Words of each answer, after 3 calls of a peer. */
const words = 300

/** The least, in a minute of one core. */
const least = 1_000

/** Asks for a plan, and gives its record. */
const recorded = async (url: string, peer: string): Promise<PlanRecording> => {
  const asked: PlanRequest = {
    question: "once 0",
    agents: [{ name: "peer", endpoint: peer, dialect: "a2a-0.3", streaming: false, skills: [{ id: "ask" }] }],
    preferences: { model: calling(words) }
  }
  const headers = { "content-type": "application/json", accept: "application/json" }
  const answered = await fetch(`${url}/plan`, { method: "POST", headers, body: JSON.stringify(asked) })
  const { plan_id } = (await answered.json()) as { readonly plan_id: string }
  const exported = await fetch(`${url}/plans/${plan_id}/export`, { headers: { connection: "close" } })
  const [recording] = read(new Uint8Array(await exported.arrayBuffer()))
  if (recording?.calls.length !== 3) throw new Error(`The plan ${plan_id} has not made 3 calls`)
  return recording
}

/** Milliseconds of CPU that the replays of all of them take, each. */
const cpuOf = async (recordings: ReadonlyArray<PlanRecording>): Promise<number> => {
  const before = process.cpuUsage()
  for (const recording of recordings) {
    const replayed = await replay(recording)
    if (replayed._tag !== "Same") throw new Error(`A replay differs: ${JSON.stringify(replayed)}`)
  }
  const { system, user } = process.cpuUsage(before)
  return (user + system) / 1_000 / recordings.length
}

/** Replays plans in this process, and says how many a core replays in a minute. */
export const replays = async (
  count: number,
  peer: Child,
  environment: Readonly<Record<string, string>>
): Promise<{ readonly isFine: boolean; readonly text: string }> => {
  const gateway = await startGateway({ ...environment, BOWLINE_DATA_DIR: "memory:" })
  const recordings = await times(count, 1, () => recorded(gateway.url, peer.url))
  await gateway[Symbol.asyncDispose]()
  const rounds: Array<number> = []
  // The first one compiles.
  for (let round = 0; round < 6; round++) rounds.push(await cpuOf(recordings))
  const each = median(rounds.slice(1))
  const perMinute = 60_000 / each
  const text = `A replay of ${words} tokens and 3 calls takes ${each.toFixed(1)} ms of CPU: ${perMinute.toFixed(0)} plans a minute and core (at least ${least})`
  return { isFine: perMinute >= least, text }
}
