import { EgressRefusal } from "../../src/egress/Egress.ts"
import { assert, describe, it } from "@effect/vitest"
import { fromTransport } from "../../src/http/ExchangeError.ts"

const failed = (code: string) => Object.assign(new Error("failed"), { code })

describe("a failed connection", () => {
  it.each([
    [failed("ECONNREFUSED"), "unsent"],
    [failed("ENOTFOUND"), "unsent"],
    [failed("EAI_AGAIN"), "unsent"],
    [failed("UND_ERR_CONNECT_TIMEOUT"), "unsent"],
    [failed("CERT_HAS_EXPIRED"), "unsent"],
    [failed("CERT_NOT_YET_VALID"), "unsent"],
    [failed("CERT_REVOKED"), "unsent"],
    [failed("CERT_UNTRUSTED"), "unsent"],
    [failed("EAI_FAIL"), "unsent"],
    [failed("INVALID_CA"), "unsent"],
    [failed("UNABLE_TO_GET_ISSUER_CERT"), "unsent"],
    [failed("ERR_TLS_CERT_ALTNAME_INVALID"), "unsent"],
    [failed("ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE"), "unsent"],
    [failed("ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE"), "unsent"],
    [failed("ERR_SSL_TLSV1_ALERT_UNKNOWN_CA"), "unsent"],
    [failed("ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED"), "unsent"],
    [failed("ERR_SSL_SSL/TLS_ALERT_BAD_RECORD_MAC"), "transient"],
    [failed("ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC"), "transient"],
    [failed("ERR_SSL_WRONG_VERSION_NUMBER"), "unsent"],
    [failed("EPROTO"), "transient"],
    [new TypeError("fetch failed", { cause: failed("ECONNREFUSED") }), "unsent"],
    [failed("ECONNRESET"), "transient"],
    [failed("EPIPE"), "transient"],
    [failed("UND_ERR_SOCKET"), "transient"],
    [new Error("failed"), "transient"],
    ["failed", "transient"]
  ] as const)("of %s is %s", (cause, verdict) => {
    assert.strictEqual(fromTransport(cause).verdict, verdict)
  })
})

describe("a connection that the gateway does not make", () => {
  it("is refused for good, under a code of its own, with the setting that allows it", () => {
    const refusal = new EgressRefusal({ host: "intranet.example", objection: "private" })
    for (const cause of [refusal, new TypeError("fetch failed", { cause: refusal })]) {
      const { reason, verdict } = fromTransport(cause)
      assert.deepStrictEqual([verdict, reason._tag], ["refused", "egress_denied"])
      assert.include(reason.message, "intranet.example")
    }
  })
})
