import { base58 } from "@scure/base"
import { Option } from "effect"

export const encode = (bytes: Uint8Array): string => base58.encode(bytes)

const decodeAny = Option.liftThrowable((text: string) => base58.decode(text))

/** Reads exactly `size` bytes. The library refuses texts of more than 4,096 characters. */
export const decode = (text: string, size: number): Option.Option<Uint8Array> =>
  Option.filter(decodeAny(text), ({ length }) => length === size)
