import { Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { Refused } from "./Refusals.ts"

/** Where the gateway says whose tokens it takes (RFC 9728). */
export const metadataPath = "/.well-known/oauth-protected-resource"

/** The gateway's own URL, as its operator or the request has it, without a slash at its end. */
export const baseOf = (publicUrl: string | undefined, { headers }: HttpServerRequest.HttpServerRequest): string =>
  (publicUrl ?? `http://${headers["host"] ?? "localhost"}`).replace(/\/+$/, "")

const quoted = (text: string): string => `"${text.replaceAll(/[\\"]/g, "\\$&").replaceAll(/[^\x20-\x7e]/g, "?")}"`

/**
 * Makes the refusals of those who may not come in. Where the configuration has identity providers, they say where to find them: MCP clients get a token there by
 * themselves.
 */
export const make = Effect.map(GatewayConfig, ({ a2a: { publicUrl }, issuers }) => {
  const hasIssuers = issuers.length > 0
  return {
    /** What RFC 9728 has of the gateway, or of a path of it. */
    metadata: (request: HttpServerRequest.HttpServerRequest, path = "") => ({
      resource: `${baseOf(publicUrl, request)}${path}`,
      authorization_servers: issuers.map(({ issuer }) => issuer),
      bearer_methods_supported: ["header"],
      resource_name: "Bowline"
    }),
    /** Nobody has come, or somebody with a credential that is not good. */
    refuse: (request: HttpServerRequest.HttpServerRequest, detail: string, isMissing = false): Refused => {
      const parameters = [
        ["realm", "bowline"],
        ...(isMissing ? [] : [["error", "invalid_token"]]),
        ...(isMissing || !hasIssuers ? [] : [["error_description", detail]]),
        ...(hasIssuers ? [["resource_metadata", `${baseOf(publicUrl, request)}${metadataPath}`]] : [])
      ]
      const challenge = parameters.map(([name = "", value = ""]) => `${name}=${quoted(value)}`).join(", ")
      return new Refused({ code: "unauthorized", detail, headers: { "www-authenticate": `Bearer ${challenge}` } })
    }
  }
})
