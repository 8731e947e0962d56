import { Option } from "effect"
import * as Base58 from "./Base58.ts"
import { publicKeySize, sha256 } from "./Ed25519.ts"

/** The first 16 bytes of the key's SHA-256, in hexadecimal. */
const fingerprint = (publicKey: Uint8Array): string => sha256(publicKey).subarray(0, 16).toString("hex")

/** `did:bindu:<author>:<name>:<uuid>`; the UUID is made of the key's SHA-256. */
export const binduDid = (author: string, name: string, publicKey: Uint8Array): string => {
  const uuid = fingerprint(publicKey).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
  return `did:bindu:${author.replaceAll("@", "_at_").replaceAll(".", "_")}:${name}:${uuid}`
}

/** A key in multibase: base58 of the two bytes for Ed25519 and the key. Bindu leaves the two bytes out. */
export const keyOfMultibase = (text: string): Option.Option<Uint8Array> => {
  if (!text.startsWith("z")) return Option.none()
  const digits = text.slice(1)
  return Option.orElse(
    Base58.decode(digits, publicKeySize + 2).pipe(
      Option.filter(([first, second]) => first === 0xed && second === 0x01),
      Option.map((bytes) => bytes.subarray(2))
    ),
    () => Base58.decode(digits, publicKeySize)
  )
}

/**
 * Whether a key fits a DID. `did:bindu` ends with the hash of its key, with or without dashes, and `did:key` is its key. For
 * any other method the document decides.
 */
export const fits = (did: string, publicKey: Uint8Array): boolean => {
  const [, method, ...rest] = did.split(":")
  const last = rest.at(-1) ?? ""
  if (method === "bindu") return last.replaceAll("-", "").toLowerCase() === fingerprint(publicKey)
  if (method === "key") return Option.exists(keyOfMultibase(last), (key) => Buffer.from(key).equals(publicKey))
  return true
}
