import { Effect, type Scope } from "effect"
import type { Network } from "../http/Network.ts"
import { completes, produces, says, stuck, works, type Act } from "./Act.ts"
import { serve } from "./ScriptedPeer.ts"
import type { ReceivedSend } from "./Seen.ts"

/** A peer of the demo, as a request can name it. */
export interface DemoPeer {
  readonly name: string
  readonly endpoint: string
  readonly description: string
}

const question = ({ message: { parts } }: ReceivedSend): string => {
  const [part] = parts
  return part.kind === "text" ? part.text : JSON.stringify(part)
}

const demos: ReadonlyArray<{
  readonly name: string
  readonly port: number
  readonly description: string
  readonly skill: { readonly id: string; readonly name: string; readonly description: string }
  readonly acts: (send: ReceivedSend) => ReadonlyArray<Act>
}> = [
  {
    name: "prompt",
    port: 3781,
    description: "Demo peer: answers at once.",
    skill: { id: "look_up", name: "Look up", description: "Demo: looks something up, and answers at once." },
    acts: (send) => [completes(`Demo answer, given at once, to: ${question(send)}`)]
  },
  {
    name: "slow",
    port: 3782,
    description: "Demo peer: works for two seconds, then answers with an artifact.",
    skill: { id: "research", name: "Research", description: "Demo: looks into something for two seconds." },
    acts: (send) => [
      says("Demo: reading the sources"),
      works("2 seconds"),
      produces(`Demo report, made in two seconds, on: ${question(send)}`),
      completes()
    ]
  },
  {
    name: "stuck",
    port: 3783,
    description: "Demo peer: says that it is working, for ever. Cancel the plan to see it let go.",
    skill: { id: "deliberate", name: "Deliberate", description: "Demo: thinks about something and never ends." },
    acts: () => [says("Demo: still thinking"), stuck]
  }
]

/**
 * Serves the three peers of the demo: one answers at once, one is slow, and one never ends. They have the same ports after a restart,
 * so that a plan can be resumed, unless something else has taken them.
 */
export const serveAll: Effect.Effect<ReadonlyArray<DemoPeer>, never, Network | Scope.Scope> = Effect.forEach(
  demos,
  Effect.fnUntraced(function* ({ acts, description, name, port, skill }) {
    const { url } = yield* serve({ card: { name, description, skills: [{ ...skill, tags: ["demo"] }] }, acts, port })
    return { name, description, endpoint: `${url}/` }
  })
)
