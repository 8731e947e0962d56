import { startDemo } from "@bowline/testing/DemoProcess"
import assert from "node:assert/strict"
import { PassThrough } from "node:stream"
import { ask } from "./Terminal.ts"

const gateway = await startDemo(new URL("../../../apps/gateway/bin/bowline.mjs", import.meta.url))
try {
  // A person who types when they are asked: yes to the first call, no to the second.
  const [keyboard, screen] = [new PassThrough(), new PassThrough()]
  const answers = ["y\n", "n Nobody needs it\n"]
  let shown = ""
  screen.setEncoding("utf8").on("data", (text: string) => {
    shown += text
    process.stdout.write(text)
    if (text.includes("Call it?")) keyboard.write(answers.shift() ?? "n\n")
  })
  const text = await ask(gateway.url, "Ask prompt and slow what a bowline is.", keyboard, screen)

  assert.match(shown, /prompt_look_up wants to be called with \{"input":/)
  assert.match(shown, /slow_research wants to be called with/)
  assert.equal(answers.length, 0)
  assert.match(text, /Demo answer, given at once/)
  assert.match(text, /Nobody needs it/)
  console.log(text)
} finally {
  await gateway.stop()
}
