import { plainPlan } from "../../src/simulation/scenario/Scenario.ts"
import { main } from "../../src/simulation/SimulateCommand.ts"

// The command with a rule that no run keeps, on a scenario of two plans.
main({
  scenario: { seed: 1, replicas: 1, plans: [plainPlan, { ...plainPlan, name: "p1", session: "s1" }], faults: [] },
  rules: { "nothing is asked": ({ attempts }) => attempts.map(({ plan }) => `${plan} is asked`) }
})
