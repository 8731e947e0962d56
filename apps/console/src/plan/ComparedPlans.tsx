import { useEffect, useMemo } from "preact/hooks"
import { followPlan, type FollowedPlan } from "../live/FollowedPlan.ts"
import { planHref } from "../route/Route.ts"
import { Problem } from "../shell/Notice.tsx"
import { Table } from "../shell/Table.tsx"
import { cost, duration, shortId, unknown } from "../text/Format.ts"

const time = (from: number | null | undefined, to: number | null | undefined): string =>
  from == null || to == null ? unknown : duration(to - from)

/** What is compared of a plan: by itself, and of a step. */
const told = ({ plan, view }: FollowedPlan) => {
  const { costUsd, endedAt, startedAt, state, steps, tasks, text } = view.value
  const callsOf = (step?: number) =>
    tasks
      .filter((task) => step === undefined || task.step === step)
      .map(({ input, state, tool }) => `${tool} ${JSON.stringify(input)}: ${state}`)
      .join("\n")
  return {
    whole: [
      ["Model", plan.value?.model ?? ""],
      ["State", state],
      ["Answer", text],
      ["Calls", callsOf()],
      ["Cost", cost(costUsd)],
      ["Time", time(startedAt, endedAt)]
    ] as const,
    step: (number: number) => {
      const step = steps.find((one) => one.step === number)
      const said = step?.attempts.map(({ isRetracted, text }) => (isRetracted ? "" : text)).join("") ?? ""
      return step === undefined
        ? ""
        : [said, callsOf(number), time(step.startedAt, step.endedAt)].filter(Boolean).join("\n")
    },
    steps: steps.length
  }
}

/** Two plans side by side, step by step. What differs has a sign. */
export const ComparedPlans = ({ id, other }: { readonly id: string; readonly other: string }) => {
  const plans = useMemo(() => [followPlan(id), followPlan(other)] as const, [id, other])
  useEffect(() => () => plans.forEach(({ stop }) => stop()), [plans])
  const [left, right] = [told(plans[0]), told(plans[1])]
  const { plan_id, step = 1 } = plans[1].plan.value?.forked_from ?? {}
  const behind = plan_id === id ? step - 1 : 0
  const steps = Array.from({ length: Math.max(left.steps, right.steps + behind) }, (_, index) => index + 1)
  const rows = left.whole
    .map(([name, text], index) => [name, text, right.whole[index]?.[1] ?? ""])
    .concat(
      steps.map((number) => [
        `Step ${number}`,
        left.step(number),
        number > behind ? right.step(number - behind) : left.step(number)
      ])
    )
  return (
    <>
      <h1>{plans[0].plan.value?.question ?? "Two plans"}</h1>
      <Problem error={plans[0].problem.value ?? plans[1].problem.value} />
      <Table
        label="Two plans side by side"
        head={["", id, other].map((one) => (
          <th scope="col">{one === "" ? "" : <a href={planHref(one)}>{shortId(one)}</a>}</th>
        ))}
      >
        {rows.map(([name, one, another]) => (
          <tr key={name}>
            <th scope="row">
              {name}
              {one === another ? "" : " ≠"}
            </th>
            <td class="plain">{one}</td>
            <td class="plain">{another}</td>
          </tr>
        ))}
      </Table>
    </>
  )
}
