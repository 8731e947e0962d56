import { Schema } from "effect"
import { listSetting, optional, setting } from "./Setting.ts"
import {
  duration,
  durationOrNever,
  globs,
  integer,
  model,
  models,
  oneOf,
  secretKey,
  trueOrFalse
} from "./SettingText.ts"

/** How plans run, and which models they use. */
export const planSettings = {
  model: optional(model, {
    variable: "BOWLINE_MODEL",
    path: ["plans", "model"],
    unset:
      "of the first provider that is configured: `openai/gpt-5-mini`, `anthropic/claude-sonnet-4-5`, `openrouter/openai/gpt-5-mini`; in the demo `openai/demo`",
    doc: "`provider/model` of the planner"
  }),
  fallbackModels: listSetting(models, {
    variable: "BOWLINE_FALLBACK_MODELS",
    path: ["plans", "fallback_models"],
    doc: "models that [take its place](provider.md#failover), in their order"
  }),
  summaryModel: optional(model, {
    variable: "BOWLINE_SUMMARY_MODEL",
    path: ["plans", "summary_model"],
    unset: "the plan's",
    doc: "`provider/model` that writes the summaries of [compactions](http.md#compaction); if it fails, the plan's models do"
  }),
  allowedModels: optional(globs, {
    variable: "BOWLINE_ALLOWED_MODELS",
    path: ["plans", "allowed_models"],
    list: true,
    unset: "the planner's, the fallbacks, and the `models` of the file's providers",
    doc: "globs of the models that `preferences.model` may name"
  }),
  contextWindow: setting(integer(100, 100_000_000), {
    variable: "BOWLINE_CONTEXT_WINDOW",
    path: ["plans", "context_window"],
    default: "128000",
    doc: "tokens, of models that neither the [table](provider.md#models) nor the file knows, at least 100"
  }),
  firstTokenTimeout: optional(duration("1ms"), {
    variable: "BOWLINE_FIRST_TOKEN_TIMEOUT",
    path: ["plans", "first_token_timeout"],
    unset: "`120s`; `600s` for models that reason",
    doc: "how long any model may be silent before its first token, see [provider](provider.md#time)"
  }),
  idleTimeout: optional(duration("1ms"), {
    variable: "BOWLINE_IDLE_TIMEOUT",
    path: ["plans", "idle_timeout"],
    unset: "`120s`; `300s` for models that reason",
    doc: "how long any model may be silent after that"
  }),
  attemptTimeout: setting(duration("1ms"), {
    variable: "BOWLINE_ATTEMPT_TIMEOUT",
    path: ["plans", "attempt_timeout"],
    default: "1800s",
    doc: "how long a whole answer of a model may take"
  }),
  retryBase: setting(duration("1ms"), {
    variable: "BOWLINE_RETRY_BASE",
    path: ["plans", "retry_base"],
    default: "1s",
    doc: "the longest first wait before a retry"
  }),
  maxRetries: setting(integer(0, 10), {
    variable: "BOWLINE_MAX_RETRIES",
    path: ["plans", "max_retries"],
    default: "3",
    doc: "retries of a step, 0..10"
  }),
  loopFailures: setting(integer(0, 1_000), {
    path: ["loop", "failures"],
    default: "3",
    doc: "steps in a row in which the same call fails before its plan ends `loop_detected`; 0: never"
  }),
  loopRepeats: setting(integer(0, 1_000), {
    path: ["loop", "repeats"],
    default: "5",
    doc: "calls in a row with the same arguments and the same result before the model is notified; 0: never"
  }),
  loopPairs: setting(integer(0, 1_000), {
    path: ["loop", "pairs"],
    default: "4",
    doc: "rounds of two calls that alternate with the same results before the model is notified; 0: never"
  }),
  sensitiveTools: listSetting(globs, {
    path: ["tools", "sensitive"],
    doc: "globs of tools whose calls need an [approval](http.md#approvals), unless the request or the skill says `never`"
  }),
  approvedTools: listSetting(globs, {
    path: ["tools", "needs_approval"],
    doc: "globs of tools whose calls need an approval, whatever the request says"
  }),
  toolConcurrency: setting(integer(1, 1_000), {
    path: ["tools", "concurrency"],
    default: "8",
    doc: "how many calls of a step run at once. One that waits for an approval does not count"
  }),
  declareAtMost: setting(integer(1, 128), {
    path: ["tools", "declare_at_most"],
    default: "64",
    doc: "how many tools a plan declares to its model, all of them. With more, the model [searches them](prompt.md#many-tools)"
  }),
  toolTimeout: setting(duration("1ms"), {
    path: ["tools", "timeout"],
    default: "6h",
    doc: "the longest that a call of a tool may take, whatever the request and the skill say"
  }),
  recipesDir: setting(Schema.String, {
    variable: "BOWLINE_RECIPES_DIR",
    path: ["plans", "recipes_dir"],
    default: "recipes",
    doc: "the folder of the [recipes](prompt.md#recipes). It has to exist if it is set"
  }),
  plannerFile: optional(Schema.String, {
    variable: "BOWLINE_PLANNER_FILE",
    path: ["plans", "planner_file"],
    unset: "[built in](prompt.md#the-built-in-instructions)",
    doc: "the file with the planner's [instructions](prompt.md#instructions)"
  }),
  maxPlans: setting(integer(1, 1_000_000), {
    variable: "BOWLINE_MAX_PLANS",
    path: ["plans", "max_plans"],
    default: "1000",
    doc: "how many plans may run or wait on this replica"
  }),
  secretKey: optional(secretKey, {
    variable: "BOWLINE_SECRET_KEY",
    path: ["plans", "secret_key"],
    secret: true,
    unset: "none: they are not stored",
    doc: "32 bytes, in base64, the same on all replicas: encrypts the [secrets of running plans](#secrets-of-running-plans), and the tokens in [URLs of files](files.md#by-a-signed-url)"
  }),
  parkAfter: setting(durationOrNever("0s"), {
    variable: "BOWLINE_PARK_AFTER",
    path: ["plans", "park_after"],
    default: "5s",
    doc: "how long a plan only waits for somebody before it is [parked](http.md#parked-plans): it has no process then; `never`"
  }),
  scheduleMin: setting(duration("1s"), {
    variable: "BOWLINE_SCHEDULE_MIN",
    path: ["schedules", "min"],
    default: "60s",
    doc: "the shortest `every_ms` of a [schedule](schedules.md)"
  }),
  resume: setting(trueOrFalse, {
    path: ["plans", "resume"],
    default: "true",
    doc: "whether plans are resumed after their process has died; otherwise they end `interrupted`"
  }),
  unknownPrice: setting(oneOf(["refuse", "ignore"]), {
    path: ["plans", "unknown_price"],
    default: "refuse",
    doc: "what becomes of a request with a [limit in money](#budgets) for a model of unknown price: 400, or what it uses of that model counts as nothing"
  })
}

/** How long a plan runs without a reader. */
export const streamSettings = {
  streamGrace: setting(duration("0s"), {
    path: ["streams", "grace"],
    default: "0s",
    doc: "how long a reader that disconnected has to come back before its plan is aborted. A reader that the gateway cut off has at least 60 s"
  }),
  takeoverGrace: setting(duration("0s"), {
    path: ["streams", "takeover_grace"],
    default: "60s",
    doc: "how long a plan that was taken over from a dead process runs before a reader has to be there"
  })
}
