import { Agent } from "@bowline/domain/peer/Agent"
import { noPreset, type Preset } from "@bowline/runtime/unstable/config/Presets"
import { demoPreset } from "../config/CallerRules.ts"
import { Console, Context, Effect, Layer, Schema } from "effect"
import { HttpServer } from "effect/http"
import { type DemoPeer, serveAll } from "./DemoPeers.ts"

/** Three small peers on local ports. With them and a scripted model everybody can try the gateway without a key. */
export class Demo extends Context.Service<Demo, { readonly peers: ReadonlyArray<DemoPeer> }>()(
  "@bowline/gateway/demo/Demo"
) {
  static readonly layer = Layer.effect(
    Demo,
    Effect.map(serveAll, (peers) => ({ peers }))
  )
}

const curl = (url: string, needsKey: boolean, body: object) =>
  `curl -N ${url} ${needsKey ? `-H "Authorization: Bearer $BOWLINE_API_KEY" ` : ""}-H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`

const decodeAgent = Schema.decodeSync(Agent)

/** The peers of the demo as a preset, for clients that bring no agents of their own, with what the operator has configured for everybody. */
export const preset = ({ agents, servers }: Pick<Preset, "agents" | "servers">): Effect.Effect<Preset, never, Demo> =>
  Effect.map(Demo, ({ peers }) => {
    const taken = new Set([...agents, ...servers.map(({ terms }) => terms)].map(({ name }) => name))
    const own = taken.size === 0 ? "" : " Your own, too."
    return {
      ...noPreset,
      name: demoPreset,
      description: `Demo: three agents on this machine, one prompt, one slow, one stuck.${own}`,
      agents: [
        ...agents,
        ...peers.filter(({ name }) => !taken.has(name)).map(({ name, endpoint }) => decodeAgent({ name, endpoint }))
      ],
      servers
    }
  })

/** Announces the demo on stderr, with commands to try. `own` are the names of what the operator has configured for everybody. */
export const announce = (needsKey: boolean, own: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { peers } = yield* Demo
    const agents = (...names: ReadonlyArray<string>) =>
      peers.filter(({ name }) => names.includes(name)).map(({ name, endpoint }) => ({ name, endpoint }))
    yield* HttpServer.addressFormattedWith((gateway) => {
      const line = (body: object, path = "/plan") => curl(`${gateway}${path}`, needsKey, body)
      return Console.error(
        [
          "",
          "  DEMO MODE: no provider is configured, so a scripted one answers. For a real one set OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY or OPENAI_BASE_URL.",
          "",
          "  An answer from two agents, one of them slow:",
          `  ${line({ question: "Ask prompt and slow what a bowline is.", session_id: "demo", agents: agents("prompt", "slow") })}`,
          "",
          "  An agent that never answers, and a deadline that holds:",
          `  ${line({ question: "Ask stuck what a bowline is.", agents: agents("stuck"), preferences: { timeout_ms: 3_000 } })}`,
          "",
          "  The first session, resumed by its session_id:",
          `  ${line({ question: "What did I ask before?", session_id: "demo" })}`,
          "",
          "  As a client of OpenAI's API, with the agents of a preset:",
          `  ${line({ model: "bowline/demo", stream: true, messages: [{ role: "user", content: "Ask prompt what a bowline is." }] }, "/v1/chat/completions")}`,
          "",
          ...(own.length === 0
            ? []
            : [
                `  Your own, which the model chooses by the words of a question: ${own.join(", ")}:`,
                `  ${line({ question: `Ask ${own.join(" and ")} something.` })}`,
                ""
              ])
        ].join("\n")
      )
    })
  })
