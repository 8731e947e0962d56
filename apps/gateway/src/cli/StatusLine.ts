import { Effect, Option } from "effect"
import { clearScreenDown, createInterface, cursorTo, moveCursor } from "node:readline"
import { columnsOf, isWatched } from "./TerminalConfig.ts"
import { fit } from "./TerminalText.ts"

const eraseLine = "\r\u001b[2K"

/**
 * Writes to the terminal of this process: lines of text on stdout and of anything else on stderr, which stay, and below them a line of
 * status, which does not. While a line of text is not over there is no status: it would stand in the text. Nor is there one under a question,
 * which stays the last line until it is answered. The caller makes the text harmless.
 */
export const make = () => {
  const { stderr, stdout } = process
  const isAnimated = isWatched(stderr)
  let isShown = false
  let isMidLine = false
  /** The question that is open, with what is typed of its answer. */
  let question: { readonly hide: () => void; readonly show: () => void } | undefined

  const clear = () => {
    if (isShown) stderr.write(eraseLine)
    isShown = false
  }
  const endLine = () => {
    clear()
    if (isMidLine) stdout.write("\n")
    isMidLine = false
  }
  /** Writes to the terminal, above a question that is open. */
  const write = (work: () => void) => {
    question?.hide()
    work()
    question?.show()
  }

  return {
    /** Shows the status, cut to the width of the terminal, in place of the one before. */
    show: (status: string) => {
      if (!isAnimated || isMidLine || question !== undefined) return
      // In the last column some terminals would begin a new line.
      stderr.write(`${eraseLine}${fit(status, columnsOf(stderr) - 1)}`)
      isShown = true
    },
    clear,
    /** Ends a line of text that is not over. */
    endLine,
    /** Text on stdout, in pieces. */
    text: (piece: string) => {
      if (piece === "") return
      write(() => {
        clear()
        stdout.write(piece)
        isMidLine = !piece.endsWith("\n")
      })
    },
    /** A line on stderr. */
    line: (line: string) =>
      write(() => {
        endLine()
        stderr.write(`${line}\n`)
      }),
    /** Asks for a line of stdin, which is a terminal: none where it ends (Ctrl-D). Interrupted, the question goes. Ctrl-C is a signal, as ever. */
    ask: (text: string) =>
      Effect.callback<Option.Option<string>>((resume) => {
        endLine()
        const reader = createInterface({ input: process.stdin, output: stderr, terminal: isAnimated, prompt: text })
        const hide = () => {
          if (!isAnimated) return void stderr.write("\n")
          moveCursor(stderr, 0, -reader.getCursorPos().rows)
          cursorTo(stderr, 0)
          clearScreenDown(stderr)
        }
        const onEnd = () => {
          stderr.write("\n")
          end(Option.none())
        }
        const close = () => {
          question = undefined
          reader.off("close", onEnd).close()
        }
        const end = (answer: Option.Option<string>) => {
          close()
          resume(Effect.succeed(answer))
        }
        question = { hide, show: () => reader.prompt(true) }
        reader.once("line", (answer) => end(Option.some(answer)))
        reader.once("close", onEnd)
        reader.on("SIGINT", () => process.kill(process.pid, "SIGINT"))
        reader.prompt()
        return Effect.sync(() => {
          hide()
          close()
        })
      })
  }
}
