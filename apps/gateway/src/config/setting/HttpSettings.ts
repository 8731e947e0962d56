import { Schema, SchemaTransformation } from "effect"
import { isIPv6 } from "node:net"
import { listSetting, optional, setting } from "./Setting.ts"
import { duration, expecting, httpUrl, integer, list, oneOf, trueOrFalse } from "./SettingText.ts"

/** A host as a `Host` header or a URL names it, in the one spelling in which hosts are compared: lower case, without brackets and without a last dot. */
export const spellHost = (host: string): string =>
  host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.$/, "")

const publicHost = Schema.String.check(
  Schema.makeFilter((text) => /^[\w.-]+$/.test(text) || isIPv6(spellHost(text)))
).pipe(
  Schema.decodeTo(Schema.String, SchemaTransformation.transform({ decode: spellHost, encode: (host: string) => host }))
)

/** An origin as a browser writes it, which is how it is compared. */
const isOrigin = (text: string): boolean =>
  /^https?:/.test(text)
    ? URL.parse(text)?.origin === text && !text.includes("*")
    : /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9.-]+$/.test(text)

const origin = Schema.String.check(Schema.makeFilter(isOrigin))

/** `600/1m`. */
const rate = Schema.String.check(Schema.isPattern(/^[^/]+\/[^/]+$/)).pipe(
  Schema.decodeTo(
    Schema.Tuple([integer(1, 1_000_000_000), duration("1s")]),
    SchemaTransformation.transform({
      decode: (text): readonly [string, string] => {
        const [requests = "", window = ""] = text.split("/")
        return [requests.trim(), window.trim()]
      },
      encode: ([requests, window]) => `${requests}/${window}`
    })
  ),
  expecting("Expected requests and a time of at least 1s, such as 600/1m")
)

/** Which requests may come in, how many, and how slowly. */
export const httpSettings = {
  publicHosts: listSetting(list(publicHost, "Expected a comma list of hosts without ports, such as bowline.example"), {
    variable: "BOWLINE_PUBLIC_HOSTS",
    path: ["server", "public_hosts"],
    unset: "with keys, any; without keys, none",
    doc: "the names in `Host` and `Origin` that mean the gateway, besides those of [loopback](http.md#who-may-come-in), whatever the port"
  }),
  publicUrl: optional(
    httpUrl
      .check(Schema.makeFilter((text) => !/[?#]/.test(text)))
      .pipe(expecting("Expected an http or https URL without a query")),
    {
      variable: "BOWLINE_PUBLIC_URL",
      path: ["server", "public_url"],
      unset: "`http://` and the `Host` of the request",
      doc: "the URL by which clients reach the gateway, for the [cards](a2a-server.md#cards) that it shows them and the [URLs of files](files.md#by-a-signed-url)"
    }
  ),
  rateLimit: optional(rate, {
    variable: "BOWLINE_RATE_LIMIT",
    path: ["server", "rate_limit"],
    unset: "with keys, `600/1m`; without keys, none",
    doc: "how many [requests](http.md#rate-limit) a caller may make in which time"
  }),
  corsOrigins: listSetting(
    list(
      origin,
      "Expected a comma list of origins such as https://app.example, as browsers send them: in lower case, without a path, a usual port or a *"
    ),
    {
      path: ["cors", "origins"],
      doc: "the origins of pages that may [call the gateway](http.md#pages-of-other-origins), such as `https://app.example`"
    }
  ),
  publicMetrics: setting(trueOrFalse, {
    variable: "BOWLINE_METRICS_PUBLIC",
    path: ["metrics", "public"],
    default: "false",
    doc: "whether [`/metrics`](metrics.md) needs no key"
  }),
  maxConnections: setting(integer(1, 1_000_000), {
    path: ["http", "max_connections"],
    default: "10000",
    doc: "how many connections may be open; one more is closed at once"
  }),
  headersTimeout: setting(duration("1ms"), {
    path: ["http", "headers_timeout"],
    default: "30s",
    doc: "how long the head of a request may take, see [slow requests](http.md#slow-requests)"
  }),
  requestTimeout: setting(duration("1ms"), {
    path: ["http", "request_timeout"],
    default: "5m",
    doc: "how long a whole request may take, its body included"
  }),
  keepAliveTimeout: setting(duration("1s"), {
    path: ["http", "keep_alive_timeout"],
    default: "75s",
    doc: "how long an idle connection stays open: longer than the proxy in front keeps one, see [slow requests](http.md#slow-requests)"
  }),
  consoleEnabled: setting(trueOrFalse, {
    path: ["console", "enabled"],
    default: "true",
    doc: "whether the gateway shows the [web console](http.md#console) at `/`"
  }),
  pushNotifications: setting(trueOrFalse, {
    path: ["a2a", "push_notifications"],
    default: "false",
    doc: "whether clients of [A2A](a2a-server.md#push-notifications) may have the gateway notify them"
  }),
  openaiProgress: setting(oneOf(["text", "none"]), {
    path: ["openai", "progress"],
    default: "text",
    doc: "whether streams of [Chat Completions](openai.md) have lines about tools as `reasoning_content`: `text`, `none`"
  }),
  openaiOnRetract: setting(oneOf(["error", "append", "hold"]), {
    path: ["openai", "on_retract"],
    default: "error",
    doc: "what they do when text that was shown [is taken back](openai.md#text-that-is-taken-back): `error`, `append`, `hold`"
  })
}
