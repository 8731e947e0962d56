import { plainPlan, type Scenario } from "../../src/simulation/Scenario.ts"

/** What is left of seeds that have found bugs of the gateway, each under the guarantee that was broken. */
export const found: Readonly<Record<string, Scenario>> = {
  "a process that takes over its own plan again writes on, though its old writer is refused": {
    seed: 53_388,
    replicas: 1,
    plans: [
      {
        ...plainPlan,
        name: "p1",
        session: "s1",
        at: 3_326,
        onDisconnect: "cancel",
        timeoutMs: 228_175,
        steps: [
          {
            words: 5,
            pauseMs: 38,
            calls: [
              { key: "p1/0.0", tool: "bindu_again", ms: 10_827 },
              { key: "p1/0.1", tool: "repeat", ms: 525 }
            ]
          },
          ...plainPlan.steps
        ]
      }
    ],
    faults: [
      { _tag: "StoreSlow", at: 3_675, replica: 0, ms: 2_225, delayMs: 3_825 },
      { _tag: "StoreSlow", at: 4_048, replica: 0, ms: 2_696, delayMs: 2_626 },
      { _tag: "AnswerLost", at: 6_679, replica: 0, isApplied: false },
      { _tag: "Pause", at: 9_405, replica: 0, ms: 30_155 }
    ]
  }
}
