import type { GivenFork } from "@bowline/client/forks"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Effect, Record } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { showOwn } from "./AskCommand.ts"
import * as GatewayClient from "./GatewayClient.ts"

const parameters = {
  plan: Argument.String("plan").pipe(Argument.withDescription("The id of the plan that is run again")),
  step: Flag.Int("step").pipe(
    Flag.withDescription("The first step that is made again. The last one, if not given"),
    Flag.optional
  ),
  model: Flag.String("model").pipe(Flag.withDescription("The model that is asked, as provider/model"), Flag.optional),
  question: Flag.String("question").pipe(Flag.withDescription("Stands in place of the question"), Flag.optional),
  instructions: Flag.String("instructions").pipe(
    Flag.withDescription("Stand in place of the instructions of the request"),
    Flag.optional
  ),
  preset: Flag.String("preset").pipe(Flag.withDescription("Another preset"), Flag.optional),
  tools: Flag.Literals("tools", ["recorded", "live", "ask"]).pipe(
    Flag.withDescription("Whether calls get what was recorded, are made, or each of them waits for a decision"),
    Flag.withDefault("recorded")
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("Print the outcome as one JSON object"), Flag.withDefault(false))
}

/** Runs a plan again from a step on, and shows it as `ask` does. */
export const fork = Command.make(
  "fork",
  parameters,
  Effect.fnUntraced(function* ({ json, plan, tools, ...given }) {
    const gateway = yield* GatewayClient.make
    const { instructions, model, preset, question, step } = given
    const wanted: GivenFork = {
      ...Record.getSomes({ instructions, model, preset, question }),
      ...Record.getSomes({ step }),
      tools
    }
    const frames = gateway.client.fork(plan, wanted, { idempotencyKey: (yield* UuidGenerator)() })
    yield* showOwn(gateway, frames, json)
  }, Effect.scoped)
).pipe(Command.withDescription("Run a plan again from a step on, with another model, question, preset or tools"))
