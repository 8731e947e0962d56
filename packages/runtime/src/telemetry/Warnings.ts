import { Array, Logger, LogLevel } from "effect"
import { counter } from "./Instrument.ts"

/** The lines of the log at `warn` and above. `docs/operations` has a page for each of them. */
export const names = [
  "abort_requests_failed",
  "account_not_renewed",
  "account_not_revoked",
  "alarm_failed",
  "authorization_server_failed",
  "inbox_read_failed",
  "compaction_failed",
  "configuration_needs_restart",
  "configuration_unusable",
  "credential_blocked",
  "credential_use_not_stored",
  "database_maintenance_failed",
  "discard_failed",
  "events_not_written",
  "event_writer_failed",
  "expiry_failed",
  "identity_provider_failed",
  "input_schema_blocked",
  "lease_lost",
  "lease_release_failed",
  "lease_renewal_failed",
  "local_tool_failed",
  "mcp_server_ended",
  "mcp_unreachable",
  "news_notices_failed",
  "notices_lost",
  "peer_card_unavailable",
  "peer_circuit_open",
  "plan_failed",
  "plan_interrupted",
  "plan_not_reported",
  "planner_file_unusable",
  "prompt_cache_lost",
  "provider_retries_exhausted",
  "provider_retry",
  "purge_failed",
  "push_dropped",
  "push_failed",
  "reading_notices_failed",
  "recipe_unusable",
  "recovery_failed",
  "remote_task_not_cancelled",
  "request_failed",
  "schedule_paused",
  "schedules_failed",
  "setting_without_effect",
  "storage_failed",
  "stream_failed",
  "supersede_failed",
  "telemetry_export_failed",
  "worker_died",
  "worker_not_replaced"
] as const

const lines = counter({
  name: "bowline.warnings",
  description: "Lines of the log at `warn` and above; `other` are those of libraries",
  labels: { warning: [...names, "other"] }
})

const isKnown = (name: unknown): name is (typeof names)[number] => names.some((known) => known === name)

/** Counts what is logged at `warn` and above, by its name. */
export const counting: Logger.Logger<unknown, void> = Logger.make(({ fiber, logLevel, message }) => {
  if (LogLevel.isLessThan(logLevel, "Warn")) return
  const [name] = Array.ensure(message)
  lines.updateUnsafe(1, { warning: isKnown(name) ? name : "other" }, fiber.context)
})
