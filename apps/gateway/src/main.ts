import { Effect, Layer } from "effect"
import { fromProcess } from "./config/GatewayConfig.ts"
import * as Gateway from "./Gateway.ts"

Effect.runFork(Effect.flatMap(fromProcess({}), (config) => Layer.launch(Gateway.layer(config))))
