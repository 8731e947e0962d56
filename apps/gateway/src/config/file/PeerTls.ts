import * as TextFile from "@bowline/runtime/unstable/prompt/TextFile"
import { Data, Effect, Redacted } from "effect"
import { X509Certificate } from "node:crypto"
import { dirname, resolve } from "node:path"
import { createSecureContext } from "node:tls"
import type { Issue } from "../setting/ConfigProblem.ts"
import type { FilePeerHost } from "./FileSchema.ts"

/** The certificate and key that a connection to a peer's host presents, and the authorities that it trusts, as PEM. Without a `ca` it trusts those of Node.js. */
export interface TlsIdentity {
  readonly cert?: string
  readonly key?: Redacted.Redacted
  readonly ca?: string
}

/** By host in lower case, with or without a port. */
export type PeerTls = ReadonlyMap<string, TlsIdentity>

class Unusable extends Data.TaggedError("Unusable")<Issue> {}

const isPem = (text: string): boolean => text.trimStart().startsWith("-----BEGIN ")

const readPem = (text: string | undefined, folder: string, path: Issue["path"]) => {
  if (text === undefined || isPem(text)) return Effect.succeed(text)
  return TextFile.readConfig(resolve(folder, text)).pipe(
    Effect.mapError((reason) => new Unusable({ path, expected: `Expected PEM, or a file that has it. ${reason}` }))
  )
}

const readHost = Effect.fnUntraced(function* ({ tls }: FilePeerHost, folder: string, path: Issue["path"]) {
  const { ca, cert, key } = yield* Effect.all({
    ca: readPem(tls.ca, folder, [...path, "ca"]),
    cert: readPem(tls.cert, folder, [...path, "cert"]),
    key: readPem(tls.key, folder, [...path, "key"])
  })
  if ((cert === undefined) !== (key === undefined)) {
    return yield* new Unusable({ path, expected: "Expected both a cert and its key, or neither" })
  }
  yield* Effect.try({
    try: () => {
      // Node.js silently ignores a `ca` that is no certificate.
      const authority = ca === undefined ? undefined : new X509Certificate(ca).toString()
      createSecureContext({ ca: authority, cert, key })
    },
    catch: () => new Unusable({ path, expected: "Expected PEM of certificates, and of the key of the first one" })
  })
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key: Redacted.make(key) })
  }
})

/** Reads the certificates and keys of all hosts, and says which files they are in. File names are relative to the folder of the configuration file. */
export const load = Effect.fnUntraced(function* (given: { readonly [host: string]: FilePeerHost }, configFile: string) {
  const hosts = new Map<string, TlsIdentity>()
  const issues: Array<Issue> = []
  for (const [host, entry] of Object.entries(given)) {
    yield* Effect.match(readHost(entry, dirname(configFile), ["peers", "hosts", host, "tls"]), {
      onFailure: (issue) => void issues.push(issue),
      onSuccess: (identity) => void hosts.set(host.toLowerCase(), identity)
    })
  }
  const files = Object.values(given).flatMap(({ tls }) =>
    Object.values(tls).flatMap((text) => (isPem(text) ? [] : [resolve(dirname(configFile), text)]))
  )
  return { hosts, issues, files }
})
