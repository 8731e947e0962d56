import * as official from "@opentelemetry/semantic-conventions/incubating"

/** Every name that version 1.41 of the conventions has, as its official package tells it. */
export const former: ReadonlySet<unknown> = new Set(Object.values(official))

type Type = "string" | "int" | "double" | "boolean" | "string[]"

/** The attributes of a span or a metric, besides `gen_ai.operation.name`. */
export interface Signal {
  readonly required: ReadonlyArray<string>
  /** Besides those that are required. */
  readonly allowed: ReadonlyArray<string>
}

/** The types of the attributes, by version 0.1.0 of the conventions for generative AI. */
export const types: Readonly<Record<string, Type>> = {
  "error.type": "string",
  "gen_ai.agent.name": "string",
  "gen_ai.conversation.compacted": "boolean",
  "gen_ai.conversation.id": "string",
  "gen_ai.operation.name": "string",
  "gen_ai.output.type": "string",
  "gen_ai.provider.name": "string",
  "gen_ai.request.max_tokens": "int",
  "gen_ai.request.model": "string",
  "gen_ai.request.reasoning.level": "string",
  "gen_ai.request.seed": "int",
  "gen_ai.request.stop_sequences": "string[]",
  "gen_ai.request.stream": "boolean",
  "gen_ai.request.temperature": "double",
  "gen_ai.request.top_p": "double",
  "gen_ai.response.finish_reasons": "string[]",
  "gen_ai.response.model": "string",
  "gen_ai.response.time_to_first_chunk": "double",
  "gen_ai.token.modality": "string",
  "gen_ai.tool.call.id": "string",
  "gen_ai.tool.name": "string",
  "gen_ai.tool.type": "string",
  "gen_ai.usage.cache_read.input_tokens": "int",
  "gen_ai.usage.input_tokens": "int",
  "gen_ai.usage.output_tokens": "int",
  "gen_ai.usage.reasoning.output_tokens": "int",
  "server.address": "string",
  "server.port": "int"
}

const ofRequests = [
  "gen_ai.conversation.id",
  "gen_ai.output.type",
  "gen_ai.request.model",
  "gen_ai.request.max_tokens",
  "gen_ai.request.temperature",
  "gen_ai.request.top_p",
  "gen_ai.request.stop_sequences",
  "gen_ai.request.seed",
  "gen_ai.response.finish_reasons",
  "gen_ai.usage.input_tokens",
  "gen_ai.usage.output_tokens",
  "error.type"
]

/** Its spans that the gateway has, by the operation: their kinds, as OTLP counts them, and their attributes. */
export const spans: Readonly<Record<string, Signal & { readonly kind: number; readonly name: string }>> = {
  invoke_agent: { kind: 1, name: "gen_ai.agent.name", required: [], allowed: ["gen_ai.agent.name", ...ofRequests] },
  chat: {
    kind: 3,
    name: "gen_ai.request.model",
    required: ["gen_ai.provider.name"],
    allowed: [
      ...ofRequests,
      "gen_ai.conversation.compacted",
      "gen_ai.request.reasoning.level",
      "gen_ai.request.stream",
      "gen_ai.response.model",
      "gen_ai.response.time_to_first_chunk",
      "gen_ai.usage.cache_read.input_tokens",
      "gen_ai.usage.reasoning.output_tokens",
      "server.address",
      "server.port"
    ]
  },
  execute_tool: {
    kind: 1,
    name: "gen_ai.tool.name",
    required: ["gen_ai.tool.name"],
    allowed: ["gen_ai.tool.call.id", "gen_ai.tool.type", "error.type"]
  }
}

const inference = ["gen_ai.operation.name", "gen_ai.provider.name"]
const usage = { instrument: "sum", unit: "{token}", required: [...inference, "gen_ai.token.modality"] }

/** Its metrics that the gateway has. */
export const metrics: Readonly<Record<string, Signal & { readonly instrument: string; readonly unit: string }>> = {
  "gen_ai.client.inference.duration": {
    instrument: "histogram",
    unit: "s",
    required: inference,
    allowed: ["gen_ai.request.model", "error.type"]
  },
  "gen_ai.client.inference.time_to_first_chunk": {
    instrument: "histogram",
    unit: "s",
    required: inference,
    allowed: ["gen_ai.request.model"]
  },
  "gen_ai.client.inference.operation.input_tokens": {
    instrument: "histogram",
    unit: "{token}",
    required: inference,
    allowed: ["gen_ai.request.model", "error.type"]
  },
  "gen_ai.client.inference.operation.output_tokens": {
    instrument: "histogram",
    unit: "{token}",
    required: inference,
    allowed: ["gen_ai.request.model", "error.type"]
  },
  "gen_ai.client.inference.usage.input_tokens": { ...usage, allowed: ["gen_ai.request.model"] },
  "gen_ai.client.inference.usage.output_tokens": { ...usage, allowed: ["gen_ai.request.model"] },
  "gen_ai.client.inference.usage.cache_read.input_tokens": { ...usage, allowed: ["gen_ai.request.model"] },
  "gen_ai.client.inference.usage.reasoning.output_tokens": { ...usage, allowed: ["gen_ai.request.model"] },
  "gen_ai.invoke_agent.duration": {
    instrument: "histogram",
    unit: "s",
    required: ["gen_ai.operation.name"],
    allowed: ["gen_ai.agent.name", "error.type"]
  },
  "gen_ai.invoke_agent.inference_calls": {
    instrument: "histogram",
    unit: "{inference_call}",
    required: [],
    allowed: ["gen_ai.agent.name"]
  },
  "gen_ai.invoke_agent.tool_calls": {
    instrument: "histogram",
    unit: "{tool_call}",
    required: [],
    allowed: ["gen_ai.agent.name"]
  },
  "gen_ai.execute_tool.duration": {
    instrument: "histogram",
    unit: "s",
    required: ["gen_ai.operation.name", "gen_ai.tool.name"],
    allowed: ["gen_ai.tool.type", "error.type"]
  }
}
