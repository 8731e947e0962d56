import type { Options } from "@bowline/testing/simulation/Simulation"
import { aftermath, wasHindered } from "@bowline/testing/unstable/simulation/Fitness"

type Observed = Parameters<NonNullable<Options["rules"]>[string]>[0]

/** Why a replica has ended a stream before the end of its plan, as it has told the client. */
export interface BrokenOff {
  readonly code: string
  readonly replica: string
  /** In milliseconds of virtual time. */
  readonly at: number
}

/** Whether the world has a cause for it: a replica that shuts down, or that could not read what is stored. */
export const isExplained = (observed: Observed, { at, code, replica }: BrokenOff): boolean => {
  if (code === "draining") {
    return observed.requests.some(
      (request) => request.what === "drain" && request.replica === replica && request.began.at <= at
    )
  }
  const from = at - aftermath(observed)
  const isLost = observed.lostAnswers.some((lost) => lost.replica === replica && lost.at > from && lost.at <= at)
  return isLost || wasHindered(observed, replica, from, at)
}
