/**
 * Seeds of the simulation whose plans were not the same once, when they were run again. Plans have budgets, answer peers, repeat effects, are parked, aborted and said several things at once, and start calls in other orders. From
 * 1009 on, processes die and plans are taken over: in the middle of answers and calls, with other tools of a server, between an answer to a peer and what follows, and for good; a server changes its tools, or cannot be reached.
 */
const first = [9, 30, 43, 49, 60, 78, 238, 345, 352, 425, 485, 1009, 2125, 2205]

/**
 * Other plans block credentials, and explain what a provider refuses; texts end a pause between two attempts, and come as an answer is there; plans are aborted before they begin, between two steps, and as soon as an attempt
 * begins. Plans are parked behind a take-over, woken by what nobody takes any more, and taken over as soon as a peer has accepted a task; a peer asks again what it has asked; two waits end apart. A store is away for too long, an answer is repaired, and a server
 * has its former tools again, or its process dies as soon as it has told of others. Calls follow effects of other plans, a text is left to the next process, a process dies between a retraction and its retry, and a plan is aborted before its next process has begun.
 */
const next = [
  2099, 2244, 2448, 5024, 5031, 7063, 7073, 7217, 20_357, 20_365, 20_424, 20_547, 20_572, 20_579, 20_591, 20_599,
  20_774, 20_961, 21_158, 21_271, 21_428, 21_450, 21_630, 22_193, 22_531, 22_739, 22_808, 22_887, 23_350
]

export const found: ReadonlyArray<number> = [...next, ...first]

/** Single plans of such seeds, by their place in the seed. What a replay of them has to know says the table of `docs/decisions/0138-what-a-plan-found-is-on-record.md`. */
export const foundPlans: ReadonlyArray<readonly [seed: number, place: number]> = [
  [23_279, 0],
  [23_281, 1],
  [30_785, 0],
  [30_788, 5],
  [31_374, 1],
  [31_443, 2],
  [31_520, 0],
  [31_803, 1],
  [32_054, 1],
  [30_643, 0],
  [31_947, 2],
  [32_309, 2],
  [33_269, 3],
  [40_023, 2],
  [40_197, 2],
  [34_834, 0],
  [33_349, 1],
  [30_206, 2],
  [53_231, 0],
  [57_160, 1],
  [56_183, 0],
  [58_581, 0],
  [50_226, 1],
  [55_252, 0],
  [55_890, 1],
  [55_101, 0],
  [57_682, 0],
  [57_903, 0],
  [58_701, 2],
  [59_790, 2],
  [55_005, 0],
  [55_306, 0],
  [51_040, 1],
  [53_382, 0],
  [59_481, 0],
  [51_847, 0],
  [53_434, 0],
  [56_556, 1],
  [50_953, 0],
  [52_614, 0],
  [53_533, 0],
  [61_251, 1],
  [63_303, 2],
  [63_529, 1],
  [63_324, 0],
  [64_538, 6],
  [63_357, 0],
  [63_440, 0],
  [64_141, 1],
  [64_284, 1],
  [65_145, 2],
  [65_746, 1],
  [47_828, 2],
  [80_886, 0],
  [83_481, 1],
  [82_344, 1],
  [86_517, 2],
  [95_330, 2],
  [97_242, 4],
  [99_204, 1],
  [62_324, 1],
  [81_258, 0],
  [100_450, 3],
  [107_190, 2],
  [109_667, 1]
]
