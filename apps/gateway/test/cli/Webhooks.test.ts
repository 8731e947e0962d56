import { assert, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { Webhook } from "standardwebhooks"
import { bowline } from "./Bowline.ts"

const secret = `whsec_${Buffer.alloc(32, 5).toString("base64")}`

it.live("bowline webhooks listen prints what comes, takes what is signed, and refuses the rest", () =>
  Effect.gen(function* () {
    const { child, ended, output } = yield* bowline(["webhooks", "listen", "--port", "0", "--secret", secret], {})
    const findUrl = Effect.sync(() => /Listening on (\S+)/.exec(output.stderr)?.[1] ?? "")
    const url = yield* Effect.repeat(findUrl, {
      until: (found) => found !== "",
      schedule: Schedule.spaced("20 millis")
    })
    const body = JSON.stringify({ type: "plan.completed" })
    const send = (timestamp: Date, signed = body) =>
      Effect.promise(async () => {
        const headers = {
          "webhook-id": "delivery_1",
          "webhook-timestamp": String(Math.floor(timestamp.getTime() / 1_000)),
          "webhook-signature": new Webhook(secret).sign("delivery_1", timestamp, signed)
        }
        return (await fetch(url, { method: "POST", headers, body })).status
      })
    const now = new Date()
    assert.strictEqual(yield* send(now), 204)
    assert.strictEqual(yield* send(now, "{}"), 401)
    assert.strictEqual(yield* send(new Date(now.getTime() - 600_000)), 401)
    child.kill("SIGINT")
    const { code, stdout } = yield* ended
    assert.strictEqual(code, 130)
    const lines = stdout.split("\n")
    assert.strictEqual(lines[0], `verified\tdelivery_1\t${body}`)
    assert.match(lines[1] ?? "", /^refused: its webhook-signature is another one\t/)
    assert.match(lines[2] ?? "", /^refused: its webhook-timestamp is more than 5 min away\t/)
  })
)

it.live("bowline webhooks listen says what is wrong with a secret", () =>
  Effect.gen(function* () {
    const { ended } = yield* bowline(["webhooks", "listen", "--secret", "abc"], {})
    const { code, stderr } = yield* ended
    assert.strictEqual(code, 64)
    assert.match(stderr, /--secret: Expected whsec_/)
  })
)
