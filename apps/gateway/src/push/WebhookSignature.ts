import { createHmac, timingSafeEqual } from "node:crypto"

/** How far the time of a signed delivery may be from now, in seconds: Standard Webhooks. */
const tolerance = 300

/** Signs the text `<id>.<timestamp>.<body>` with a secret of Standard Webhooks: `whsec_` and its bytes in base64. */
export const signWith =
  (secret: string) =>
  (text: string): string =>
    `v1,${createHmac("sha256", Buffer.from(secret.slice("whsec_".length), "base64"))
      .update(text)
      .digest("base64")}`

/** Why a delivery is not one that was signed with the secret; undefined if it is. `now` is in milliseconds since 1970. */
export const fault = (
  secret: string,
  headers: Readonly<Record<string, string | undefined>>,
  body: string,
  now: number
): string | undefined => {
  const { "webhook-id": id, "webhook-signature": signatures = "", "webhook-timestamp": timestamp = "" } = headers
  if (id === undefined || !/^\d{1,12}$/.test(timestamp)) return "it has no webhook-id or webhook-timestamp"
  if (Math.abs(now / 1_000 - Number(timestamp)) > tolerance) return "its webhook-timestamp is more than 5 min away"
  const expected = Buffer.from(signWith(secret)(`${id}.${timestamp}.${body}`))
  const isGood = (signature: string) => {
    const given = Buffer.from(signature)
    return given.length === expected.length && timingSafeEqual(given, expected)
  }
  return signatures.split(" ").some(isGood) ? undefined : "its webhook-signature is another one"
}
