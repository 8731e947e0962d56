import type { Verified } from "@bowline/domain/plan/PlanEvent"

/** Who said what is in an envelope. `verified` is whether the DID has signed all of it. */
export interface Source {
  readonly tool: string
  readonly agent: string | null
  readonly did: string | null
  readonly verified: Verified
}

/**
 * Remote content as data for the model: between two lines that hold a delimiter, random per plan, which is taken out of the
 * content, so that nothing in it can close the envelope.
 */
export const wrap = (delimiter: string, { tool, agent, did, verified }: Source, content: string) =>
  [
    `<result ${delimiter} tool=${JSON.stringify(tool)} agent=${JSON.stringify(agent)} did=${JSON.stringify(did)} verified="${verified}">`,
    content.replaceAll(delimiter, ""),
    `</result ${delimiter}>`
  ].join("\n")
