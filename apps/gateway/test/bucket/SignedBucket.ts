import { createHash, createHmac } from "node:crypto"
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http"
import { buffer } from "node:stream/consumers"
import S3rver from "s3rver"

/** The only key that `s3rver` knows, and its secret. */
export const key = "S3RVER"

const hmac = (secret: string | Buffer, text: string): Buffer => createHmac("sha256", secret).update(text).digest()
const sha256 = (bytes: string | Buffer): string => createHash("sha256").update(bytes).digest("hex")

const authorization = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/

/** Headers that have to be signed. */
const required = ["host", "x-amz-content-sha256", "x-amz-date"]

/**
 * What is wrong with the signature of a request, by the published rules of version 4; undefined if it is right. It is made anew here: the SDK's own signer would make its mistakes again.
 */
const wrongIn = (asked: IncomingMessage, body: Buffer, region: string): string | undefined => {
  const [, access, scope = "", names = "", signature] = authorization.exec(asked.headers.authorization ?? "") ?? []
  const time = String(asked.headers["x-amz-date"])
  const place = [time.slice(0, 8), region, "s3", "aws4_request"]
  if (access !== key || scope !== place.join("/")) return "InvalidAccessKeyId"
  const signed = names.split(";")
  if (!required.every((name) => signed.includes(name))) return "AccessDenied"
  if (asked.headers["x-amz-content-sha256"] !== sha256(body)) return "XAmzContentSHA256Mismatch"
  const { pathname, searchParams } = new URL(asked.url ?? "", "http://bucket")
  const query = Array.from(searchParams, (pair) => pair.map(encodeURIComponent).join("=")).toSorted()
  const headers = signed.map((name) => `${name}:${String(asked.headers[name]).trim()}\n`).join("")
  const canonical = [asked.method, pathname, query.join("&"), headers, names, sha256(body)].join("\n")
  const secret = place.reduce<string | Buffer>(hmac, `AWS4${key}`)
  const told = ["AWS4-HMAC-SHA256", time, scope, sha256(canonical)].join("\n")
  return hmac(secret, told).toString("hex") === signature ? undefined : "SignatureDoesNotMatch"
}

interface Given {
  readonly port: number
  readonly directory: string
  readonly bucket: string
  readonly region: string
}

/** `s3rver`, which checks no signature of version 4, behind a server that does. It refuses what is wrong as S3 does: 403. */
export const serve = async ({ bucket, directory, port, region }: Given) => {
  const behind = new S3rver({
    port: 0,
    address: "127.0.0.1",
    silent: true,
    directory,
    configureBuckets: [{ name: bucket }]
  })
  const inner = await behind.run()
  const pass = async (asked: IncomingMessage, answer: ServerResponse): Promise<void> => {
    const body = await buffer(asked)
    const code = wrongIn(asked, body, region)
    if (code !== undefined) {
      answer.writeHead(403, { "content-type": "application/xml" }).end(`<Error><Code>${code}</Code></Error>`)
      return
    }
    const { headers, method, url } = asked
    const passed = request({ port: inner.port, host: "127.0.0.1", method, path: url, headers }, (given) => {
      answer.writeHead(given.statusCode ?? 500, given.headers)
      given.pipe(answer)
    })
    passed.on("error", () => answer.destroy())
    passed.end(body)
  }
  const server = createServer((asked, answer) => {
    // Who has sent it is gone.
    pass(asked, answer).catch(() => answer.destroy())
  })
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  const address = server.address()
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await behind.close()
    }
  }
}
