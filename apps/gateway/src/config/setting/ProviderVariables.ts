import { optional } from "./Setting.ts"
import { httpUrl, oneOf, secret, secrets } from "./SettingText.ts"

const apiKey = (variable: string, doc: string) => optional(secret, { variable, secret: true, unset: "none", doc })

const apiKeys = (variable: string, doc: string) =>
  optional(secrets, { variable, secret: true, list: true, unset: "none", doc })

const baseUrl = (variable: string, usual: string, doc: string) =>
  optional(httpUrl, { variable, unset: `\`${usual}\``, doc })

const openaiUrl = "https://api.openai.com/v1"
const anthropicUrl = "https://api.anthropic.com"

/**
 * The best known providers: their defaults, their variables, and which variable sets what. The file sets the same, and more, under
 * `providers`; it wins over the defaults, and the variables win over it.
 */
export const knownProviders = {
  openai: {
    wire: undefined,
    baseUrl: openaiUrl,
    defaultModel: "openai/gpt-5-mini",
    variables: {
      openaiApiKey: apiKey("OPENAI_API_KEY", "the key of `openai`"),
      openaiApiKeys: apiKeys(
        "OPENAI_API_KEYS",
        "a comma list of keys: the credentials `openai-1`, `openai-2` …. Wins over `OPENAI_API_KEY`, with a warning"
      ),
      openaiBaseUrl: baseUrl("OPENAI_BASE_URL", openaiUrl, "the base URL of `openai`, with `/v1`"),
      openaiApi: optional(oneOf(["chat", "responses"]), {
        variable: "OPENAI_API",
        unset: "`responses` at `api.openai.com`, else `chat`",
        doc: "`chat` or `responses`: what `openai` speaks"
      })
    },
    sets: { apiKey: "openaiApiKey", apiKeys: "openaiApiKeys", baseUrl: "openaiBaseUrl", wire: "openaiApi" }
  },
  anthropic: {
    wire: "messages",
    baseUrl: anthropicUrl,
    defaultModel: "anthropic/claude-sonnet-4-5",
    variables: {
      anthropicApiKey: apiKey("ANTHROPIC_API_KEY", "the key of `anthropic`"),
      anthropicApiKeys: apiKeys("ANTHROPIC_API_KEYS", "a comma list of keys: the credentials `anthropic-1` …"),
      anthropicBaseUrl: baseUrl("ANTHROPIC_BASE_URL", anthropicUrl, "the base URL of `anthropic`, without `/v1`")
    },
    sets: { apiKey: "anthropicApiKey", apiKeys: "anthropicApiKeys", baseUrl: "anthropicBaseUrl", wire: undefined }
  },
  openrouter: {
    wire: "chat",
    baseUrl: "https://openrouter.ai/api/v1",
    defaultModel: "openrouter/openai/gpt-5-mini",
    variables: {
      openrouterApiKey: apiKey("OPENROUTER_API_KEY", "the key of `openrouter`, which speaks `chat`"),
      openrouterApiKeys: apiKeys("OPENROUTER_API_KEYS", "a comma list of keys: the credentials `openrouter-1` …")
    },
    sets: { apiKey: "openrouterApiKey", apiKeys: "openrouterApiKeys", baseUrl: undefined, wire: undefined }
  }
} as const

export const providerVariables = {
  ...knownProviders.openai.variables,
  ...knownProviders.anthropic.variables,
  ...knownProviders.openrouter.variables
}
