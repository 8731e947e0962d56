/**
 * What frames and records of most plans have in common: the fields that they begin with, and the words of this gateway. Blocks are read with the very bytes that they were written with, so it never
 * changes: another one gets another first byte of a block.
 */
const common = [
  ["session", "plan", "step", "text.delta", "usage", "final", "done"],
  [
    "reasoning.delta",
    "retry",
    "text.retract",
    "compaction",
    "notice",
    "queued",
    "parked",
    "woken",
    "inbox.accepted",
    "inbox.taken",
    "inbox.moved"
  ],
  [
    "task.started",
    "task.progress",
    "task.artifact",
    "task.finished",
    "approval.requested",
    "approval.resolved",
    "waiting",
    "error"
  ],
  {
    type: "allowance",
    budget: { tokens: 1000000, tool_calls: 100, cost_usd: null },
    spent: { tokens: 0, tool_calls: 0, cost_usd: 0, month_cost_usd: 0 }
  },
  {
    type: "claim",
    task_id: "",
    before: "approval",
    claim: {
      task_id: "",
      plan_id: "plan_",
      at: "2026-01-01T00:00:00.000Z",
      state: "unknown",
      result: null,
      taskId: null,
      contextId: null
    }
  },
  { type: "given", round: 1, entry: { type: "answer", task_id: "", text: "" } },
  { type: "given", round: 1, entry: { type: "decision", task_id: "", decision: "approve", note: "", input: {} } },
  {
    type: "sources",
    sources: {
      "server ": { digest: "" },
      "card ": {
        told: {
          description: null,
          tools: [
            {
              name: "",
              description: "",
              inputSchema: {
                type: "object",
                properties: { "": { type: "string" }, n: { type: "integer" } },
                required: [""]
              },
              outputSchema: null,
              isDestructive: false
            }
          ]
        }
      }
    }
  },
  { task_id: "", tool: "", agent: null, input: {}, expires_at: "2026-01-01T00:00:00.000Z", why: "always" },
  { task_id: "", decision: "approve", note: "", by: "anonymous" },
  {
    task_id: "",
    kind: "result",
    round: 1,
    tool: "",
    agent: null,
    input: {},
    expires_at: "2026-01-01T00:00:00.000Z",
    message: ""
  },
  { entry_id: "entry_", by: "anonymous", text: "" },
  { wakes_at: "2026-01-01T00:00:00.000Z" },
  { because: "entry", deadline_at: "2026-01-01T00:00:00.000Z" },
  {
    step: 1,
    attempt: 2,
    delay_ms: 1000,
    credential: "openai-1",
    model: "openai/",
    error: { code: "provider_rate_limited", message: "The connection to the provider was lost" }
  },
  {
    code: "aborted",
    message: "The plan was cancelled, in stage provider",
    retryable: false,
    stage: "provider",
    reason: "cancelled",
    data: { attempts: 1, reasons: ["transport"], partial: true }
  },
  { task_id: "", state: "working", message: "" },
  {
    task_id: "",
    state: "failed",
    remote_task_id: null,
    remote_context_id: null,
    duration_ms: 100,
    error: { code: "tool_failed", message: "" }
  },
  {
    type: "attempt",
    attempt: 1,
    model: "anthropic/claude-",
    credential: "anthropic-1",
    prompt: { system: "", tools: "", messages: "", rest: "" },
    parts: [
      1,
      { _tag: "ReasoningEnded", signature: "" },
      { _tag: "Finished", reason: "stop", inferred: false, model: "" }
    ],
    failure: { _tag: "rate_limited", message: "", status: 429, retryAfterMs: 1000 },
    step: 1
  },
  {
    task_id: "",
    tool: "",
    kind: "peer",
    agent: "",
    skill: "",
    input: { input: "", query: "", id: "", name: "" },
    agent_did: null,
    agent_did_source: null
  },
  { task_id: "", tool: "", kind: "mcp", agent: "", skill: "", input: {}, agent_did: null, agent_did_source: null },
  { task_id: "", content: "", media_type: "text/plain", truncated: false, verified: "unknown" },
  { task_id: "", state: "completed", remote_task_id: null, remote_context_id: null, duration_ms: 100 },
  {
    type: "attempt",
    attempt: 1,
    model: "openai/gpt-",
    credential: "openai-1",
    prompt: { system: "", tools: "", messages: "", rest: "" },
    parts: [
      1,
      { _tag: "ToolCallFragment", call: 0 },
      { _tag: "ToolCallFragment", call: 1 },
      { _tag: "ToolCallFragment", call: 2 },
      {
        _tag: "UsageReported",
        usage: { input_tokens: 1000, output_tokens: 100, cached_input_tokens: 0, reasoning_tokens: 0 }
      },
      { _tag: "ToolCall", call: 0, id: "", name: "", arguments: { $: {} } },
      { _tag: "ToolCall", call: 1, id: "", name: "", arguments: { $: {} } },
      { _tag: "Finished", reason: "tool_calls", inferred: false, model: "" }
    ],
    step: 1
  },
  {
    type: "begin",
    version: "0.0.0",
    environment: "",
    delimiter: "",
    history: { first: "msg_", last: "msg_", count: 1 },
    summary: { covered_seq: 1, priors: [], text: "" },
    resumed: true
  },
  { external_session_id: null, created: false },
  { external_session_id: null, created: true },
  { type: "begin", version: "0.0.0", environment: "", delimiter: "", history: null },
  { model: "openai/gpt-", deadline_at: "2026-01-01T00:00:00.000Z" },
  { step: 1, attempt: 1 },
  {
    type: "attempt",
    attempt: 1,
    model: "openai/gpt-",
    credential: "openai-1",
    prompt: { system: "", tools: "", messages: "", rest: "" },
    parts: [
      1,
      {
        _tag: "UsageReported",
        usage: { input_tokens: 1000, output_tokens: 100, cached_input_tokens: 0, reasoning_tokens: 0 }
      },
      { _tag: "Finished", reason: "stop", inferred: false, model: "" }
    ],
    step: 1
  },
  {
    step: 1,
    attempt: 1,
    input_tokens: 1000,
    output_tokens: 100,
    cached_input_tokens: 0,
    reasoning_tokens: 0,
    cost_usd: null
  },
  {
    stop_reason: "stop",
    text: "",
    usage: { input_tokens: 1000, output_tokens: 100, cached_input_tokens: 0, reasoning_tokens: 0 },
    steps: 1,
    tool_calls: 0,
    duration_ms: 1000
  }
]

export const dictionary = Buffer.from(common.map((one) => JSON.stringify(one)).join(""))
