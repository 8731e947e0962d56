import type { Draw } from "./Draw.ts"
import { drawOperation, type Message, message, type Target } from "./HostileMessage.ts"
import { text } from "./HostileValue.ts"

/** How a request goes over its connection, and what has to come back. */
export interface HostileRequest {
  readonly what: string
  readonly pieces: ReadonlyArray<Buffer>
  readonly pauseMs: number
  readonly end: "read" | "halfClose" | "leave"
  /** The methods of the requests. There are as many answers at most, and a reader waits for no more. */
  readonly methods: ReadonlyArray<string>
  /** What is no HTTP may have no answer but the end of the connection. */
  readonly mustAnswer: boolean
}

/** The id of a request that hides in the body of another one. */
export const smuggled = "smuggled"

const head = ({ headers, method, target }: Message, ...more: ReadonlyArray<string>): Buffer => {
  const lines = [`${method} ${target} HTTP/1.1`, ...headers.map(([name, value]) => `${name}: ${value}`), ...more]
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1")
}

const chunked = (draw: Draw, bytes: Buffer): Buffer => {
  const pieces: Array<Buffer> = []
  const size = 1 + draw.below(draw.oneOf([10, 1_000, 100_000]))
  // A body of many small chunks would say nothing that one of some does not say.
  const from = Math.max(0, bytes.length - size * 1_000)
  if (from > 0) pieces.push(Buffer.from(`${from.toString(16)}\r\n`), bytes.subarray(0, from), Buffer.from("\r\n"))
  for (let at = from; at < bytes.length; at += size) {
    const piece = bytes.subarray(at, at + size)
    pieces.push(
      Buffer.from(`${piece.length.toString(16)}${draw.chance(2) ? ";a=b" : ""}\r\n`),
      piece,
      Buffer.from("\r\n")
    )
  }
  return Buffer.concat([...pieces, Buffer.from("0\r\n\r\n")])
}

/** As HTTP has it: the bytes of one request, whose connection is closed behind it. */
const framed = (draw: Draw, sent: Message, close = "Connection: close"): Buffer => {
  if (sent.body.length === 0) {
    return head(sent, close, ...(sent.method === "GET" || draw.chance(50) ? [] : ["Content-Length: 0"]))
  }
  return draw.chance(80)
    ? Buffer.concat([head(sent, close, `Content-Length: ${sent.body.length}`), sent.body])
    : Buffer.concat([head(sent, close, "Transfer-Encoding: chunked"), chunked(draw, sent.body)])
}

/** What one end of a connection may read otherwise than the other one. Whatever it is taken for, nothing may stand behind it. */
const misframed = (draw: Draw, sent: Message): Buffer => {
  const { body, method, target } = sent
  const inner = `GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${smuggled}\r\n\r\n`
  const hidden = `0\r\n\r\n${inner}`
  const withHead = (...lines: ReadonlyArray<string>) => Buffer.concat([head(sent, ...lines), Buffer.from(hidden)])
  return draw.anyOf(
    () => withHead(`Content-Length: ${hidden.length}`, "Transfer-Encoding: chunked"),
    () => withHead("Transfer-Encoding: chunked", "Content-Length: 6"),
    () => withHead("Content-Length: 5", `Content-Length: ${hidden.length}`),
    () =>
      withHead(
        `Content-Length: ${draw.oneOf(["-1", "+5", "0x5", "5, 5", " ", "1e1", "9".repeat(25), "5 6", "\x0b5"])}`
      ),
    () =>
      withHead(
        `Transfer-Encoding: ${draw.oneOf(["xchunked", "chunked, identity", "identity", "\x0bchunked", "gzip"])}`
      ),
    () => withHead("Transfer-Encoding : chunked"),
    () => withHead("Transfer-Encoding: chunked", "Transfer-Encoding: x"),
    () => withHead(" Transfer-Encoding: chunked"),
    () => withHead("X: a\rTransfer-Encoding: chunked"),
    () => withHead("X: a\nContent-Length: 5"),
    () => withHead("X\0: a"),
    () => withHead("X: a\0b"),
    () => withHead(": a"),
    () => withHead("X a"),
    () => withHead(`X: ${"x".repeat(draw.oneOf([16_000, 17_000, 1_000_000]))}`),
    () => withHead(...Array.from({ length: draw.oneOf([100, 2_001, 20_000]) }, (_, index) => `X${index}: x`)),
    () =>
      Buffer.concat([
        head(sent, "Transfer-Encoding: chunked"),
        Buffer.from(
          draw.oneOf([
            "zz\r\n",
            "-1\r\na\r\n0\r\n\r\n",
            "ffffffffffffffffff\r\n",
            "5\r\nab\r\n0\r\n\r\n",
            "2\r\nabcd\r\n0\r\n\r\n",
            `1;${"e".repeat(20_000)}\r\na\r\n0\r\n\r\n`,
            "0x1\r\na\r\n0\r\n\r\n",
            "1\na\n0\n\n",
            "0\r\nContent-Length: 5\r\nX\r\n\r\n"
          ])
        )
      ]),
    () =>
      Buffer.from(
        `${draw.oneOf(["get", "G ET", "POST\t", "", "M-SEARCH@", "SOURCE2"])} ${target} HTTP/1.1\r\nHost: x\r\n\r\n`,
        "latin1"
      ),
    () =>
      Buffer.from(
        `${method} ${target} ${draw.oneOf(["HTTP/9.9", "HTTP/1.1 x", "HTTP/", "http/1.1", "HTTP/0.9"])}\r\nHost: x\r\n\r\n`,
        "latin1"
      ),
    () => Buffer.from(`${method} ${text(draw)} HTTP/1.1\r\nHost: x\r\n\r\n`),
    () => Buffer.from(`${method} /${"x".repeat(draw.oneOf([9_000, 17_000, 200_000]))} HTTP/1.1\r\nHost: x\r\n\r\n`),
    () => Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    () => Buffer.from("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", "latin1"),
    () => Buffer.from(draw.many(1, 400, () => draw.below(256))),
    () =>
      Buffer.concat([Buffer.from("CONNECT 127.0.0.1:9 HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n"), body.subarray(0, 100)])
  )
}

const cut = (draw: Draw, bytes: Buffer): ReadonlyArray<Buffer> => {
  const places = draw.many(1, 5, () => draw.below(bytes.length)).toSorted((a, b) => a - b)
  return [...places, bytes.length].map((place, index) => bytes.subarray(places[index - 1] ?? 0, place))
}

/** The request of this number. */
export const draw = (draw: Draw, target: Target): HostileRequest => {
  const operation = drawOperation(draw, target.operations)
  const sent = message(draw, operation, target)
  const plain = { pauseMs: 0, end: "read", methods: [sent.method], mustAnswer: true } as const
  const name = `${sent.method} ${sent.target.slice(0, 200)}`
  const kind = draw.below(100)
  if (kind < 58) return { ...plain, what: name, pieces: [framed(draw, sent)] }
  if (kind < 63) return { ...plain, what: `${name}, in pieces`, pieces: cut(draw, framed(draw, sent)), pauseMs: 2 }
  if (kind < 67)
    return { ...plain, what: `${name}, half-closed`, pieces: [framed(draw, sent)], end: "halfClose", mustAnswer: false }
  if (kind < 72) {
    const all = [sent, ...draw.many(1, 4, () => message(draw, operation, target))]
    const pieces = [Buffer.concat(all.map((one) => framed(draw, one, "Connection: keep-alive")))]
    return { ...plain, what: `${name}, and others behind it`, pieces, methods: all.map(({ method }) => method) }
  }
  if (kind < 88)
    return {
      ...plain,
      what: `${name}, misframed`,
      pieces: [misframed(draw, sent)],
      methods: [sent.method, ""],
      mustAnswer: false
    }
  const [begin = Buffer.alloc(0)] = cut(draw, framed(draw, sent))
  if (kind < 98) {
    const end = draw.oneOf(["leave", "leave", "halfClose"] as const)
    return {
      ...plain,
      what: `${name}, cut by ${end}`,
      pieces: [begin],
      pauseMs: draw.below(20),
      end,
      mustAnswer: false
    }
  }
  // It is never whole: what there is comes byte by byte, or nothing comes any more.
  return {
    ...plain,
    what: `${name}, slow`,
    pieces: cut(draw, begin.subarray(0, -1)),
    pauseMs: draw.oneOf([0, 100, 400]),
    mustAnswer: false
  }
}
