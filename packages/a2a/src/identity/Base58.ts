import { base58 } from "@scure/base"
import { Option } from "effect"

export const encode = (bytes: Uint8Array): string => base58.encode(bytes)

const decodeAny = Option.liftThrowable((text: string) => base58.decode(text))

/**
 * Reads exactly so many bytes in the alphabet of Bitcoin. A text that is too long for them is not even looked at: the time
 * that decoding takes grows with the square of its length.
 */
export const decode = (text: string, size: number): Option.Option<Uint8Array> =>
  text.length > Math.ceil(size * 1.37) ? Option.none() : Option.filter(decodeAny(text), ({ length }) => length === size)
