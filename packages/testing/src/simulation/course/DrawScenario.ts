import { type Array as Arrays, Struct } from "effect"
import { withExtra } from "./DrawExtra.ts"
import { withPayments } from "./DrawPayments.ts"
import { drawFault, allFaults, type FaultKinds } from "./DrawFault.ts"
import {
  drawBudget,
  drawDay,
  drawPlan,
  type Frame,
  lengthOf,
  times,
  withQuestions,
  withTexts,
  withUploads,
  withWaits
} from "./DrawPlan.ts"
import { SeededRandom } from "../scenario/SeededRandom.ts"
import type { CallerAct, Fault, Scenario, ScenarioPlan } from "../scenario/Scenario.ts"

/** A plan and faults that meet: to draw them by chance takes many seeds. */
interface Plot {
  readonly plan: ScenarioPlan
  readonly faults: ReadonlyArray<Fault>
}

const plots: ReadonlyArray<{
  readonly needs: FaultKinds
  readonly draw: (random: SeededRandom, plan: ScenarioPlan, elsewhere: number) => Plot
}> = [
  {
    // The writer is away for longer than its lease, and comes back while another one writes.
    needs: new Set(["process", "store"]),
    draw: (random, plan) => {
      const away = { at: plan.at + random.int(500, 6_000), replica: plan.replica, ms: random.int(14_000, 40_000) }
      return { plan, faults: [{ _tag: random.pick(["Pause", "Pause", "Partition"]), ...away }] }
    }
  },
  {
    // Something is asked of a plan at another replica, and no notice of it reaches the writer.
    needs: new Set(["store", "callers"]),
    draw: (random, plan, replica) => {
      const at = random.int(500, Math.ceil(lengthOf(plan) / 2))
      const ms = random.int(1_000, 15_000)
      const become = random.pick<"lost" | "late">(["lost", "lost", "late"])
      const act = random.pick<CallerAct>([
        { _tag: "Cancel", at, replica },
        { _tag: "Cancel", at, replica },
        { _tag: "AskAgain", at, replica },
        { _tag: "ComeBack", at, replica, from: "start" }
      ])
      return {
        plan: { ...plan, acts: [act] },
        faults: [{ _tag: "Notices", at: plan.at + at - random.int(0, 500), replica: plan.replica, ms, become }]
      }
    }
  },
  {
    // Somebody else reads the plan at another replica when the first reader leaves.
    needs: new Set(["callers"]),
    draw: (random, plan, replica) => {
      const [at, later] = [random.int(0, 5_000), random.int(500, 8_000)]
      const acts: ReadonlyArray<CallerAct> = [
        { _tag: "AskAgain", at, replica },
        // A third one may come there, and leave before the second one does.
        ...times(random.int(0, 1), () => ({
          _tag: "AskAgain" as const,
          at: at + random.int(0, 500),
          replica,
          staysMs: random.int(1, 4_000)
        })),
        { _tag: "Leave", at: at + later }
      ]
      return { plan: { ...plan, onDisconnect: "cancel", hasKey: true, acts }, faults: [] }
    }
  }
]

const drawPlot = (random: SeededRandom, name: string, frame: Frame, kinds: FaultKinds): Plot | undefined => {
  const plot = plots[random.int(0, plots.length - 1)]
  if (frame.replicas < 2 || plot === undefined || !plot.needs.isSubsetOf(kinds)) return undefined
  const plan = drawPlan(random, name, frame, { pace: "talks" })
  const elsewhere = (plan.replica + random.int(1, frame.replicas - 1)) % frame.replicas
  return plot.draw(random, { ...plan, timeoutMs: 120_000 }, elsewhere)
}

const drawUpTo = (most: number, seed: number, kinds: FaultKinds): Scenario => {
  const random = new SeededRandom(`scenario ${seed}`)
  const frame: Frame = {
    replicas: random.int(1, 3),
    hasActs: kinds.has("callers"),
    isLong: random.chance(25),
    isSlow: random.chance(25)
  }
  const count = random.int(1, most)
  const plot = random.chance(20) ? drawPlot(random, "p0", frame, kinds) : undefined
  const plans = times(count, (index) =>
    index === 0 && plot !== undefined ? plot.plan : drawPlan(random, `p${index}`, frame)
  )
  const faults = times(random.int(0, 6), () => drawFault(random, kinds, frame.replicas, plans))
  const budgets = random.of("budget")
  const scenario: Scenario = {
    seed,
    replicas: frame.replicas,
    plans: plans.map((plan) => ({ ...plan, ...drawBudget(budgets) })),
    faults: [...(plot?.faults ?? []), ...faults.filter((fault) => fault !== undefined)],
    ...drawDay(budgets, count)
  }
  return withExtra(random.of("extra"), frame.hasActs ? withTexts(random.of("texts"), scenario) : scenario, kinds)
}

/** What a seed stands for. */
export const drawScenario = (seed: number, kinds: FaultKinds = allFaults): Scenario => {
  const scenario = drawUpTo(5, seed, kinds)
  if (!kinds.has("callers")) return scenario
  return withUploads(new SeededRandom(`uploads ${seed}`), drawWaits(seed, scenario, kinds), kinds.has("process"))
}

const drawWaits = (seed: number, scenario: Scenario, kinds: FaultKinds): Scenario => {
  const waiting = withWaits(new SeededRandom(`waits ${seed}`), scenario)
  if (!kinds.has("peers")) return waiting
  const asking = withQuestions(new SeededRandom(`questions ${seed}`), waiting)
  return kinds.has("process") ? withPayments(new SeededRandom(`payments ${seed}`), asking) : asking
}

/** What a seed stands for where callers ask this. An app runs many seeds of few plans: there each plan meets more faults. */
export const drawAppScenario = (
  seed: number,
  questions: Arrays.NonEmptyReadonlyArray<string>,
  kinds: FaultKinds = allFaults
): Scenario => {
  const scenario = drawUpTo(2, seed, kinds)
  // What its model says, and how, is its own.
  const plans = scenario.plans.map((plan, index) => ({
    ...Struct.omit(plan, ["json", "only"]),
    question: questions[index % questions.length] ?? questions[0],
    ballast: 0,
    // Its own script answers: it calls the tools of the app, and no agents of the world.
    steps: []
  }))
  return { ...scenario, plans }
}
