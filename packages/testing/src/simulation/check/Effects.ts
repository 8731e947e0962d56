import type { Observed, ObservedCall } from "../scenario/Observed.ts"
import * as Bank from "../world/Bank.ts"
import { eventsOf, named, seconds } from "./PlanEnd.ts"

/** Who has asked for the plans, by their names. */
const payersOf = ({ plans }: Observed) => {
  const payers = new Map(plans.map(({ name, plan }): [string, Bank.Payer] => [name, plan]))
  return (name: string) => payers.get(name)
}

/** What each call was to do once, by its intent or by its wait. */
export const intentsOf = (observed: Observed): ReadonlyMap<string, string> => {
  const payers = new Map(observed.plans.map(({ plan }) => [plan.plan_id, plan]))
  const intents = new Map<string, string>()
  for (const { changes, plan_id } of observed.commits) {
    for (const change of changes) {
      if (change._tag !== "TaskStarted" && change._tag !== "WaitOpened") continue
      const [paid, payer] = [Bank.orderOf(change.input), payers.get(plan_id)]
      if (paid === undefined || payer === undefined || intents.has(change.task_id)) continue
      intents.set(change.task_id, Bank.effectIdOf(change.tool, paid, payer))
    }
  }
  return intents
}

type Paying = Pick<ObservedCall, "began" | "key" | "payment" | "plan" | "task_id" | "tool">

/** The calls that tools got, and those that callers have made themselves. */
const madeOf = ({ calls, paid }: Observed): ReadonlyArray<Paying> => [...calls, ...paid]

/** What the bank got, by what it was to do once. */
const byEffect = (observed: Observed): ReadonlyMap<string, ReadonlyArray<Paying>> => {
  const payerOf = payersOf(observed)
  const known = new Map<string, Array<Paying>>()
  for (const call of madeOf(observed)) {
    const effect = Bank.effectIdOfCall(call, payerOf)
    if (effect !== undefined) known.set(effect, [...(known.get(effect) ?? []), call])
  }
  return known
}

const isPaidOnce = (effect: string, calls: ReadonlyArray<Paying>): ReadonlyArray<string> => {
  // A call that is made again by itself is the same one.
  const first = new Map<string, Paying>()
  for (const call of calls) if (Bank.isPaid(call) && !first.has(call.task_id)) first.set(call.task_id, call)
  const paid = Array.from(first.values())
  const keys = paid.map(({ began, key }) => `${key} at ${seconds(began.at)}`)
  return paid.length > 1 ? [`the bank does ${effect} ${paid.length} times: ${keys.join(", ")}`] : []
}

/** All calls of an effect have one idempotency key, and no other call has it. */
const keysAreTheirOwn = (known: ReturnType<typeof byEffect>): ReadonlyArray<string> => {
  const owners = new Map<string, string>()
  return Array.from(known).flatMap(([effect, calls]) => {
    const keys = new Set(calls.flatMap(({ payment }) => payment?.key ?? []))
    const taken = Array.from(keys).flatMap((key) => {
      const owner = owners.get(key) ?? effect
      owners.set(key, owner)
      return owner === effect ? [] : [`${effect} has the idempotency key of ${owner}`]
    })
    return [...(keys.size > 1 ? [`${effect} has ${keys.size} idempotency keys`] : []), ...taken]
  })
}

/** A call that is told to repeat an earlier one is of the same effect, and was not made; the bank has done the earlier one. */
const repeatsAreTrue = (observed: Observed): ReadonlyArray<string> => {
  const intents = intentsOf(observed)
  const made = madeOf(observed)
  return observed.plans.flatMap((plan) =>
    eventsOf(plan).flatMap(({ data, event }) => {
      if (event !== "task.finished" || data.repeat_of === undefined) return []
      const { repeat_of, task_id } = data
      const [own, earlier] = [intents.get(task_id), intents.get(repeat_of)]
      const what = `${named(plan)}: call ${task_id} is told to repeat ${repeat_of}`
      if (own === undefined || own !== earlier) return [`${what}, which is of ${earlier}, and not of ${own}`]
      const isMade = made.some((call) => call.task_id === task_id)
      const isDone = made.some((call) => call.task_id === repeat_of && Bank.isPaid(call))
      return [...(isMade ? [`${what}, and was made`] : []), ...(isDone ? [] : [`${what}, which the bank has not done`])]
    })
  )
}

/** Whether another call was to do the same: one of them has the effect, and that may have begun later. */
export const hasRival = (intents: ReturnType<typeof intentsOf>, task_id: string): boolean => {
  const own = intents.get(task_id)
  return own !== undefined && Array.from(intents).some(([task, effect]) => task !== task_id && effect === own)
}

/** Nobody is asked about, and no call is refused for, an earlier call that there is not. */
const doubtsHaveReasons = (observed: Observed): ReadonlyArray<string> => {
  const intents = intentsOf(observed)
  return observed.commits.flatMap(({ changes }) =>
    changes.flatMap((change) => {
      if (change._tag !== "WaitOpened" || change.why !== "maybe_done") return []
      const { mark, task_id } = change
      const [own, earlier] = [intents.get(task_id), mark === null ? undefined : intents.get(mark)]
      return own !== undefined && own === earlier
        ? []
        : [`somebody is asked whether ${own} was done by ${mark}, which is of ${earlier}`]
    })
  )
}

/**
 * The bank does nothing twice, whoever asks again: the model, another plan, or whoever takes one over. Who is asked says the truth. What is told to
 * repeat an earlier call does, and all calls of an effect have one idempotency key.
 */
export const effects = (observed: Observed): ReadonlyArray<string> => {
  const known = byEffect(observed)
  return [
    ...Array.from(known).flatMap(([effect, calls]) => isPaidOnce(effect, calls)),
    ...keysAreTheirOwn(known),
    ...repeatsAreTrue(observed),
    ...doubtsHaveReasons(observed)
  ]
}
