import { Effect, Logger, References } from "effect"
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** An empty folder, for as long as the test runs, and a second one outside of it. */
export const folders = Effect.acquireRelease(
  Effect.sync(() => {
    const root = realpathSync(mkdtempSync(join(tmpdir(), "bowline-texts-")))
    const [inside, outside] = [join(root, "recipes"), join(root, "recipes-elsewhere")]
    for (const folder of [inside, outside]) mkdirSync(folder)
    return { root, inside, outside }
  }),
  ({ root }) => Effect.sync(() => rmSync(root, { recursive: true }))
)

export const recipe = (name: string, body: string, description = `How to ${name}`) =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}\n`

/** Collects what is reported, as `message: reason`. */
export const reports = () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ fiber, message }) => {
    lines.push(`${String(message)}: ${String(fiber.getRef(References.CurrentLogAnnotations)["reason"])}`)
  })
  return { lines, layer: Logger.layer([logger]) }
}
