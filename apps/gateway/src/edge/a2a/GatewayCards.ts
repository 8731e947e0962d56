import * as ServerCard from "@bowline/a2a/unstable/server/ServerCard"
import type { ServedDialect } from "@bowline/a2a/unstable/server/Operation"
import type { Metadata } from "@bowline/a2a/unstable/server/ServedTask"
import { version } from "@bowline/protocol/api/Api"
import { defaultPreset, type Preset } from "@bowline/runtime/unstable/config/Presets"
import { Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { GatewayConfig } from "../../config/GatewayConfig.ts"
import { baseOf } from "../../http/ProtectedResource.ts"

type Named = Pick<Preset, "name" | "description" | "agents">

const planSkill: ServerCard.CardSkill = {
  id: "plan",
  name: "Plan",
  description: "Answers a question: a planner calls agents and tools, step by step, and tells what happens",
  tags: ["planner", "agents"]
}

const skillOf = ({ description, name }: Named): ServerCard.CardSkill => ({
  id: name,
  name,
  description: description ?? `Plans with the agents and tools of ${name}`,
  tags: ["preset"]
})

/** A peer as the extended card shows it, without its URL, which is the operator's. */
const peerSkill = ({ name }: Preset["agents"][number]): ServerCard.CardSkill => ({
  id: `peer-${name}`,
  name,
  description: `The planner may call the agent ${name}`,
  tags: ["peer"]
})

const hasOwnCard = ({ name }: Named): boolean => name !== defaultPreset

/** Makes the cards of the gateway and of its presets. The extended ones have the caller's peers, too, and speak one dialect. */
export const make = Effect.map(GatewayConfig, ({ a2a: { hasPush, publicUrl }, callerKeys, issuers }) => {
  const facts = { version, needsKey: callerKeys.length + issuers.length > 0, hasPush }
  const skillsWith = (skills: ReadonlyArray<ServerCard.CardSkill>, peers: ReadonlyArray<Named>) => {
    const agents = new Map(peers.flatMap(({ agents }) => agents.map((agent) => [agent.name, agent] as const)))
    return [...skills, ...Array.from(agents.values(), peerSkill)]
  }
  return {
    /** The card of a preset or, without one, of the gateway. */
    of: (
      request: HttpServerRequest.HttpServerRequest,
      presets: ReadonlyArray<Named>,
      preset: Named | undefined,
      extended?: ServedDialect
    ): Metadata => {
      const showsPeers = extended !== undefined
      const card = extended === "1.0" ? ServerCard.make10 : ServerCard.make
      const url = `${baseOf(publicUrl, request)}/a2a`
      if (preset === undefined) {
        return card({
          ...facts,
          name: "Bowline",
          description: "An agent gateway: a planner answers questions with a catalog of agents, MCP servers and tools",
          url,
          skills: skillsWith([planSkill, ...presets.filter(hasOwnCard).map(skillOf)], showsPeers ? presets : [])
        })
      }
      const skill = skillOf(preset)
      return card({
        ...facts,
        name: preset.name,
        description: skill.description,
        url: `${url}/agents/${encodeURIComponent(preset.name)}`,
        skills: skillsWith([planSkill, skill], showsPeers ? [preset] : [])
      })
    }
  }
})
