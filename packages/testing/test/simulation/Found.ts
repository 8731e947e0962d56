import { plainPlan, type Scenario } from "../../src/simulation/scenario/Scenario.ts"

/** What is left of seeds that have found bugs of the gateway, each under the guarantee that was broken. */
export const found: Readonly<Record<string, Scenario>> = {
  "a plan that interrupts ends the older ones, though the answer of the store that creates it is lost": {
    seed: 22_716,
    replicas: 1,
    plans: [
      {
        ...plainPlan,
        at: 216,
        onBusy: "interrupt",
        hasKey: false,
        steps: [
          { words: 1, pauseMs: 1, calls: [{ key: "p0/0.0", tool: "desk_find", ms: 444 }] },
          { words: 5, pauseMs: 28, calls: [] }
        ]
      },
      { ...plainPlan, name: "p1", at: 288, onBusy: "interrupt", hasKey: false }
    ],
    faults: [{ _tag: "AnswerLost", at: 251, replica: 0, isApplied: true }]
  },
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
  },
  "a call that its process was still preparing when it died gets its result with the end of its plan": {
    seed: 100_060,
    replicas: 1,
    plans: [
      {
        ...plainPlan,
        name: "p1",
        at: 331,
        onDisconnect: "cancel",
        onBusy: "interrupt",
        hasKey: false,
        timeoutMs: 173_211,
        steps: [
          {
            words: 3,
            pauseMs: 10,
            calls: [
              { key: "p1/0.0", tool: "repeat", ms: 1 },
              { key: "p1/0.1", tool: "work", ms: 0 },
              { key: "p1/0.2", tool: "auto_ask", ms: 1 }
            ]
          },
          ...plainPlan.steps
        ]
      }
    ],
    faults: [{ _tag: "Kill", at: 370, replica: 0, tasks: 25, backMs: 342 }]
  },
  "a question that fits is asked, though what stays of the session fills more than a compaction leaves it": {
    seed: 116,
    replicas: 1,
    plans: [
      { ...plainPlan, ballast: 4_900 },
      {
        ...plainPlan,
        name: "p1",
        at: 1_000,
        ballast: 3_100,
        steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p1/0.0", tool: "auto_ask", ms: 1 }] }, ...plainPlan.steps]
      }
    ],
    faults: []
  },
  "a plan that learns nothing new of its MCP server goes on at once, though it looks up what is left of the day": {
    seed: 20_223,
    day: { tokens: 100_000, tool_calls: 10 },
    replicas: 1,
    plans: [
      {
        ...plainPlan,
        steps: [{ words: 6, pauseMs: 54, calls: [{ key: "p0/0.0", tool: "desk_find", ms: 0 }] }, ...plainPlan.steps]
      }
    ],
    faults: [{ _tag: "McpServer", at: 200, ms: 207, does: "forgets" }]
  },
  "a process that gets a session again stops what it ran there before another one had it": {
    seed: 100_318,
    replicas: 2,
    plans: [
      {
        ...plainPlan,
        name: "p2",
        at: 1,
        timeoutMs: 103_821,
        steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p2/0.1", tool: "desk_note", ms: 1_543 }] }, ...plainPlan.steps],
        acts: [{ _tag: "ComeBack", at: 1, replica: 1, from: "start" }]
      }
    ],
    faults: [
      { _tag: "HalfOpen", at: 633, replica: 0 },
      { _tag: "Partition", at: 4_591, replica: 0, ms: 42_759 }
    ]
  },
  "a call that an MCP server has taken ends well, though the server forgets the session of another one": {
    seed: 501_187,
    replicas: 1,
    plans: [
      {
        ...plainPlan,
        steps: [
          {
            words: 1,
            pauseMs: 1,
            calls: [
              { key: "p0/0.0", tool: "desk_note", ms: 1 },
              { key: "p0/0.1", tool: "desk_find", ms: 500 }
            ]
          },
          ...plainPlan.steps
        ]
      }
    ],
    faults: [{ _tag: "Mcp", key: "p0/0.0", does: { _tag: "Refuse", status: 404 } }]
  },
  "a text that comes too late for a plan that refuses to wait is asked, though another plan waits for the session": {
    seed: 1_003_882,
    replicas: 1,
    plans: [
      {
        ...plainPlan,
        at: 1,
        onBusy: "reject",
        only: { key: "p0/only", tool: "bindu_again", ms: 3_353 },
        acts: [{ _tag: "Say", at: 11, replica: 0, number: 0, when: "boundary", else: "ask" }]
      },
      { ...plainPlan, name: "p1", at: 2_953 }
    ],
    faults: []
  },
  "a plan that an entry has woken is not parked again before its calls go on, however slow the store is": {
    seed: 395,
    replicas: 1,
    parkAfterMs: 1876,
    plans: [
      {
        ...plainPlan,
        at: 1_842,
        waitMs: 29_126,
        steps: [
          {
            words: 1,
            pauseMs: 1,
            calls: [
              { key: "p0/9.0", tool: "page", ms: 0 },
              { key: "p0/9.1", tool: "page", ms: 0 }
            ]
          },
          { words: 1, pauseMs: 1, calls: [{ key: "p0/0.1", tool: "auto_again", ms: 1 }] },
          ...plainPlan.steps
        ],
        acts: [{ _tag: "Give", at: 374, replica: 0, number: 3 }]
      }
    ],
    faults: [{ _tag: "StoreSlow", at: 2_089, replica: 0, ms: 55_087, delayMs: 1_416 }]
  },
  "the deadline of a plan does not end it that comes while the database is asked whether it is parked: what it is parked does not count":
    {
      seed: 61_005_473,
      replicas: 2,
      parkAfterMs: 363,
      plans: [
        {
          ...plainPlan,
          at: 1,
          hasKey: false,
          timeoutMs: 183_503,
          approval: "always",
          waitMs: 15_270,
          answers: true
        },
        {
          ...plainPlan,
          name: "p1",
          session: "s1",
          at: 2_434,
          hasKey: false,
          timeoutMs: 129_250,
          steps: [
            { words: 3, pauseMs: 17, calls: [{ key: "p1/0.0", tool: "auto_ask", ms: 846 }] },
            { words: 3, pauseMs: 4, calls: [] }
          ],
          waitMs: 15_270
        },
        {
          ...plainPlan,
          name: "p2",
          session: "s2",
          at: 2_973,
          replica: 1,
          onBusy: "interrupt",
          timeoutMs: 4_907,
          steps: [
            { words: 1, pauseMs: 14, calls: [{ key: "p2/8.0", tool: "one_ask", ms: 173 }] },
            { words: 6, pauseMs: 62, calls: [] }
          ],
          acts: [
            { _tag: "Give", at: 9_650, replica: 0, number: 10 },
            { _tag: "Give", at: 10_988, replica: 1, number: 11 },
            { _tag: "Give", at: 6_932, replica: 0, number: 12 },
            { _tag: "Give", at: 29_465, replica: 0, number: 13 }
          ],
          waitMs: 15_270,
          answers: true
        }
      ],
      faults: [
        { _tag: "StoreSlow", at: 3_180, replica: 1, ms: 4_576, delayMs: 3_366 },
        { _tag: "Peer", key: "p2/8.0", does: { _tag: "Asks", rounds: 2 } }
      ]
    },
  "a process that was frozen in front of a call does not make it, when another one has ended its plan meanwhile": {
    seed: 1,
    replicas: 2,
    plans: [
      {
        ...plainPlan,
        steps: [
          { words: 1, pauseMs: 1, calls: [{ key: "p0/7.0", tool: "pay", ms: 500, order: 1 }] },
          ...plainPlan.steps
        ]
      }
    ],
    faults: [{ _tag: "Pause", at: 17, replica: 0, ms: 30_000 }]
  },
  "a result that came in time ends its call well, though the process that takes its plan over is late": {
    seed: 3_016_671,
    replicas: 1,
    parkAfterMs: 630,
    plans: [
      {
        ...plainPlan,
        at: 3_453,
        onDisconnect: "cancel",
        onBusy: "interrupt",
        toolTimeoutMs: 395,
        waitMs: 23_571,
        steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p0/9.0", tool: "page", ms: 0 }] }, ...plainPlan.steps],
        acts: [{ _tag: "Give", at: 8_789, replica: 0, number: 0 }]
      },
      {
        ...plainPlan,
        name: "p1",
        session: "s1",
        at: 2_410,
        waitMs: 23_571,
        steps: [
          { words: 1, pauseMs: 123, calls: [{ key: "p1/7.5", tool: "book", ms: 4_052, order: 1 }] },
          { words: 1, pauseMs: 16, calls: [{ key: "p1/9.0", tool: "page", ms: 0 }] },
          { words: 4, pauseMs: 66, calls: [] }
        ],
        acts: [{ _tag: "Decide", at: 1_819, replica: 0, approves: true }]
      }
    ],
    faults: [
      { _tag: "AnswerLost", at: 7_440, replica: 0, isApplied: false },
      { _tag: "StoreSlow", at: 6_871, replica: 0, ms: 4_940, delayMs: 1_797 }
    ]
  },
  "a plan that is parked while the store is away has the time that was left before": {
    seed: 2_027_000_162,
    replicas: 1,
    parkAfterMs: 1_392,
    plans: [
      {
        ...plainPlan,
        at: 188,
        onDisconnect: "cancel",
        timeoutMs: 195_720,
        waitMs: 12_321,
        answers: true,
        steps: [
          { words: 1, pauseMs: 1, calls: [{ key: "p0/9.1", tool: "page", ms: 0 }] },
          { words: 1, pauseMs: 1, calls: [{ key: "p0/0.0", tool: "auto_ask", ms: 1 }] },
          ...plainPlan.steps
        ]
      }
    ],
    faults: [
      { _tag: "Peer", key: "p0/0.0", does: { _tag: "State", state: "something-new" } },
      { _tag: "Partition", at: 1_016, replica: 0, ms: 6_553 }
    ]
  },
  "a process that was away asks a provider once more for a plan that another one has parked": {
    seed: 7_011_487,
    replicas: 2,
    parkAfterMs: 250,
    plans: [
      {
        ...plainPlan,
        at: 516,
        onBusy: "interrupt",
        steps: [
          { words: 3, pauseMs: 277, calls: [{ key: "p0/7.5", tool: "one_refund", ms: 0, order: 1 }] },
          { words: 3, pauseMs: 79, calls: [{ key: "p0/9.0", tool: "page", ms: 0 }] },
          { words: 23, pauseMs: 220, calls: [] }
        ],
        waitMs: 22_321,
        toolTimeoutMs: 753
      }
    ],
    faults: [
      ...[500, 503, 500, 500, 500, 503, 503, 503].map((status, request) => ({
        _tag: "Provider" as const,
        plan: "p0",
        request,
        does: { _tag: "Refuse" as const, status }
      })),
      { _tag: "Peer", key: "p0/7.5", does: { _tag: "Late", ms: 13_807 } },
      { _tag: "Partition", at: 7_165, replica: 0, ms: 21_428 }
    ]
  },
  "a parked plan is unread to a process that hears nothing of a reader elsewhere": {
    seed: 2_050_011_386,
    replicas: 2,
    parkAfterMs: 741,
    plans: [
      {
        ...plainPlan,
        at: 1_204,
        replica: 1,
        onDisconnect: "cancel",
        steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p0/9.0", tool: "page", ms: 0 }] }, ...plainPlan.steps],
        acts: [
          { _tag: "AskAgain", at: 60, replica: 0 },
          { _tag: "Leave", at: 3_668 }
        ],
        waitMs: 10_429
      }
    ],
    faults: [{ _tag: "Notices", at: 6_027, replica: 1, ms: 4_769, become: "lost" }]
  },
  "a call whose peer had not named it before the kill has its whole time again": {
    seed: 2_050_020_562,
    replicas: 1,
    plans: [
      {
        ...plainPlan,
        toolTimeoutMs: 27_768,
        hasKey: false,
        steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p0/0.0", tool: "one_again", ms: 1 }] }, ...plainPlan.steps]
      }
    ],
    faults: [
      { _tag: "Peer", key: "p0/0.0", does: { _tag: "Late", ms: 13_454 } },
      { _tag: "Kill", at: 22, replica: 0, tasks: 0, backMs: 120 }
    ]
  },
  "a mark stands for what came before, where the budget pays no summary": {
    seed: 870_123_741,
    replicas: 1,
    plans: [
      { ...plainPlan, session: "s0", at: 1, ballast: 3_667 },
      {
        ...plainPlan,
        name: "p2",
        session: "s0",
        at: 68,
        ballast: 1_886,
        steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p2/2.0", tool: "auto_again", ms: 1 }] }, ...plainPlan.steps],
        budget: { max_total_tokens: 3_491 }
      }
    ],
    faults: []
  }
}
