import { columnsOf, isWatched } from "./TerminalConfig.ts"
import { fit } from "./TerminalText.ts"

const eraseLine = "\r\u001b[2K"

/**
 * Writes to the terminal of this process: lines of text on stdout and of anything else on stderr, which stay, and below them a line of
 * status, which does not. While a line of text is not over there is no status: it would stand in the text. The caller makes the
 * text harmless.
 */
export const make = () => {
  const { stderr, stdout } = process
  const isAnimated = isWatched(stderr)
  let isShown = false
  let isMidLine = false

  const clear = () => {
    if (isShown) stderr.write(eraseLine)
    isShown = false
  }
  const endLine = () => {
    clear()
    if (isMidLine) stdout.write("\n")
    isMidLine = false
  }
  return {
    /** Shows the status, cut to the width of the terminal, in place of the one before. */
    show: (status: string) => {
      if (!isAnimated || isMidLine) return
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
      clear()
      stdout.write(piece)
      isMidLine = !piece.endsWith("\n")
    },
    /** A line on stderr. */
    line: (line: string) => {
      endLine()
      stderr.write(`${line}\n`)
    }
  }
}
