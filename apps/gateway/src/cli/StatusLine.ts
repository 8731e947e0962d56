import { Effect, Option } from "effect"
import { clearScreenDown, createInterface, cursorTo, type Interface, moveCursor } from "node:readline"
import { columnsOf, isWatched } from "./TerminalConfig.ts"
import { fit } from "./TerminalText.ts"

const eraseLine = "\r\u001b[2K"

const prompt = "> "

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
  let question: { readonly hide: () => void; readonly show: () => void; readonly holdsText?: boolean } | undefined
  /** What comes while a line is typed, from the first piece of text on: a prompt would take the line of a text that is not over. */
  const held: Array<() => void> = []

  /** Who reads lines while no question is open. */
  let listening: { readonly open: () => void; readonly close: () => void } | undefined

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
  const write = (work: () => void, isText = false) => {
    if (question?.holdsText === true && (isText || held.length > 0)) return void held.push(work)
    question?.hide()
    work()
    question?.show()
  }

  const hideLine = (reader: Interface) => {
    if (!isAnimated) return void stderr.write("\n")
    moveCursor(stderr, 0, -reader.getCursorPos().rows)
    cursorTo(stderr, 0)
    clearScreenDown(stderr)
  }
  const openReader = (text: string) => {
    const reader = createInterface({
      input: process.stdin,
      output: stderr,
      terminal: isAnimated,
      prompt: text,
      historySize: 0
    })
    reader.on("SIGINT", () => process.kill(process.pid, "SIGINT"))
    return reader
  }

  /**
   * Reads lines of stdin until what it gives back is called. What is typed is shown under a prompt from its first key on: until then the status is there. A
   * question takes its place, and what was typed comes back behind it.
   */
  const read = (onLine: (line: string) => void) => {
    let typed = ""
    const open = () => {
      const reader = openReader(isAnimated ? prompt : "")
      const typing = { hide: () => hideLine(reader), show: () => reader.prompt(true), holdsText: true }
      const begin = () => {
        endLine()
        question = typing
        reader.prompt(true)
      }
      const leave = () => {
        if (question !== typing) return
        question = undefined
        for (const work of held.splice(0)) work()
      }
      // Before the reader itself: the line begins under what is there.
      const onKey = (key: string | undefined) => {
        if (question !== undefined) return
        if (key !== undefined && /^[^\p{Cc}]/u.test(key)) begin()
        else clear()
      }
      const onKeyEnd = () => {
        if (question !== typing || reader.line !== "") return
        typing.hide()
        leave()
      }
      if (isAnimated) process.stdin.prependListener("keypress", onKey).on("keypress", onKeyEnd)
      const close = () => {
        if (question === typing) typing.hide()
        leave()
        process.stdin.off("keypress", onKey).off("keypress", onKeyEnd)
        typed = reader.line
        reader.off("close", onEnd).close()
      }
      // Ctrl-D: nothing more is read.
      const onEnd = () => {
        close()
        listening = undefined
      }
      reader.on("line", (line) => {
        leave()
        onLine(line)
      })
      reader.once("close", onEnd)
      if (typed !== "" && isAnimated) {
        begin()
        reader.write(typed)
      }
      typed = ""
      return close
    }
    let close = open()
    listening = {
      open: () => {
        close = open()
      },
      close: () => close()
    }
    return () => {
      if (listening === undefined) return
      listening = undefined
      close()
    }
  }

  return {
    read,
    /** Shows the status, cut to the width of the terminal, in place of the one before. */
    show: (status: string) => {
      if (!isAnimated || isMidLine || question !== undefined) return
      // In the last column some terminals would begin a new line.
      stderr.write(`${eraseLine}${fit(status, columnsOf(stderr) - 1)}`)
      isShown = true
    },
    clear,
    /** Ends a line of text that is not over. */
    endLine: () => {
      if (held.length > 0) held.push(endLine)
      else endLine()
    },
    /** Text on stdout, in pieces. */
    text: (piece: string) => {
      if (piece === "") return
      write(() => {
        clear()
        stdout.write(piece)
        isMidLine = !piece.endsWith("\n")
      }, true)
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
        listening?.close()
        endLine()
        const reader = openReader(text)
        const hide = () => hideLine(reader)
        const onEnd = () => {
          stderr.write("\n")
          end(Option.none())
        }
        const close = () => {
          question = undefined
          reader.off("close", onEnd).close()
          listening?.open()
        }
        const end = (answer: Option.Option<string>) => {
          close()
          resume(Effect.succeed(answer))
        }
        question = { hide, show: () => reader.prompt(true) }
        reader.once("line", (answer) => end(Option.some(answer)))
        reader.once("close", onEnd)
        reader.prompt()
        return Effect.sync(() => {
          hide()
          close()
        })
      })
  }
}
