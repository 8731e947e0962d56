import { isSettled } from "@bowline/domain/plan/Plan"
import type { Observed, ObservedReader } from "../scenario/Observed.ts"
import { named, seconds } from "./PlanEnd.ts"

/** The last connection of each reader. */
const lastConnections = ({ readers }: Observed): ReadonlyArray<ObservedReader> =>
  Array.from(new Map(readers.map((one) => [`${one.reader} ${one.plan_id}`, one])).values())

/** When faults stop, everything ends: every plan, every stream, every request, every call of a provider or a tool. */
export const liveness = (observed: Observed): ReadonlyArray<string> => {
  const { attempts, calls, end, faultsEnd, plans, replicas, requests } = observed
  const since = `the faults ended at ${seconds(faultsEnd)}, the run at ${seconds(end)}`
  const isAlive = (name: string) => replicas.some(({ ended, replica }) => replica === name && ended === undefined)
  const open = [
    ...plans
      .filter(({ plan }) => !isSettled(plan))
      .map((plan) => `${named(plan)} is ${plan.plan.state} in stage ${plan.plan.stage ?? "none"}`),
    ...lastConnections(observed)
      .filter(({ ended }) => ended === undefined || ended.how === "closed")
      .map(({ ended, plan_id, reader }) => `${reader} of ${plan_id} has no end: its stream is ${ended?.how ?? "open"}`),
    ...requests
      .filter(({ ended, replica }) => ended === undefined && isAlive(replica))
      .map(({ began, plan, replica, what }) => `${what} ${plan} of ${seconds(began.at)} has no answer from ${replica}`),
    ...attempts
      .filter(({ ended, replica }) => ended === undefined && isAlive(replica))
      .map(
        ({ began, plan, replica }) =>
          `a request of ${plan} to the provider runs on ${replica} since ${seconds(began.at)}`
      ),
    ...calls
      .filter(({ ended, replica }) => ended === undefined && isAlive(replica))
      .map(({ began, key, replica }) => `call ${key} runs on ${replica} since ${seconds(began.at)}`)
  ]
  return open.map((what) => `${what} (${since})`)
}
