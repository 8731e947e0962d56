import { optional } from "./Setting.ts"
import { httpUrl, oneOf, secret, secrets } from "./SettingText.ts"

const unset = "none"

/** Variables of the best known providers. The file sets the same, and more, under `providers`. */
export const providerVariables = {
  openaiApiKey: optional(secret, { variable: "OPENAI_API_KEY", secret: true, unset, doc: "the key of `openai`" }),
  openaiApiKeys: optional(secrets, {
    variable: "OPENAI_API_KEYS",
    secret: true,
    list: true,
    unset,
    doc: "a comma list of keys: the credentials `openai-1`, `openai-2` …. Wins over `OPENAI_API_KEY`, with a warning"
  }),
  openaiBaseUrl: optional(httpUrl, {
    variable: "OPENAI_BASE_URL",
    unset: "`https://api.openai.com/v1`",
    doc: "the base URL of `openai`, with `/v1`"
  }),
  anthropicApiKey: optional(secret, {
    variable: "ANTHROPIC_API_KEY",
    secret: true,
    unset,
    doc: "the key of `anthropic`"
  }),
  anthropicApiKeys: optional(secrets, {
    variable: "ANTHROPIC_API_KEYS",
    secret: true,
    list: true,
    unset,
    doc: "a comma list of keys: the credentials `anthropic-1` …"
  }),
  anthropicBaseUrl: optional(httpUrl, {
    variable: "ANTHROPIC_BASE_URL",
    unset: "`https://api.anthropic.com`",
    doc: "the base URL of `anthropic`, without `/v1`"
  }),
  openrouterApiKey: optional(secret, {
    variable: "OPENROUTER_API_KEY",
    secret: true,
    unset,
    doc: "the key of `openrouter`, which speaks `chat`"
  }),
  openrouterApiKeys: optional(secrets, {
    variable: "OPENROUTER_API_KEYS",
    secret: true,
    list: true,
    unset,
    doc: "a comma list of keys: the credentials `openrouter-1` …"
  }),
  openaiApi: optional(oneOf(["chat", "responses"]), {
    variable: "OPENAI_API",
    unset: "`responses` at `api.openai.com`, else `chat`",
    doc: "`chat` or `responses`: what `openai` speaks"
  })
}
