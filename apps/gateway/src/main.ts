#!/usr/bin/env node
import { Effect, Layer } from "effect"
import * as Cli from "./cli/Cli.ts"
import * as Process from "./cli/Process.ts"

Process.run(Effect.scoped(Layer.build(Cli.layer)))
