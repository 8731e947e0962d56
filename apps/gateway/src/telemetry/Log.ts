import * as Warnings from "@bowline/runtime/unstable/telemetry/Warnings"
import { Layer, Logger, LogLevel, References } from "effect"
import type { GatewayConfig } from "../config/GatewayConfig.ts"
import * as LogLine from "./LogLine.ts"

/** The log of this process on stderr. Warnings are counted at any level. */
export const layer = ({ format, level }: GatewayConfig["Service"]["log"]) =>
  Layer.mergeAll(
    Logger.layer([
      LogLine.atLeast(
        level,
        LogLine.asRead(
          process.stderr,
          format === "json" ? Logger.withConsoleError(LogLine.json) : Logger.consolePretty()
        )
      ),
      Warnings.counting
    ]),
    Layer.succeed(Logger.LogToStderr, true),
    Layer.succeed(References.MinimumLogLevel, LogLevel.isGreaterThan(level, "Warn") ? "Warn" : level)
  )
