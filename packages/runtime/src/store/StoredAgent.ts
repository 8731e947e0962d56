import * as Agent from "@bowline/domain/peer/Agent"
import * as UrlSecrets from "../egress/UrlSecrets.ts"

/** The URL of an agent as it is stored and compared: without the parameters that are secrets. */
export const endpointOf = ({ endpoint }: Pick<Agent.Agent, "endpoint">): string => UrlSecrets.without(endpoint)

/** An agent as its session keeps it. */
export const summary = (agent: Agent.Agent): Agent.AgentSummary => ({
  ...Agent.summary(agent),
  endpoint: endpointOf(agent)
})
