import { syncBuiltinESMExports } from "node:module"
import * as net from "node:net"
import nodeCrypto from "node:crypto"
import nodeDns from "node:dns"
import nodeFs from "node:fs"

/** The line of our sources, or of an app's, that did it; undefined for the machinery of Node.js and of tests. */
const placeOf = (stack: string): string | undefined =>
  stack
    .split("\n")
    .slice(1)
    .map((line) => line.trim())
    .find((line) => !/RealWorld\.ts|node:internal|\(<anonymous>\)$|at new Promise/.test(line))

/** Tests; and the turn for which Effect waits when it drops a stream of Node.js. Nothing of a run depends on it. */
const isMachinery = (stack: string): boolean =>
  /node_modules\/(vitest|@vitest|vite|tinyp|@voidzero)|platform-node-shared\/dist\/internal\/stream/.test(stack)

/** Effect hashes objects by random numbers. The order of its maps must not depend on them. */
const isHashing = (place: string): boolean => /\/effect\/(dist|src)\/Hash\./.test(place)

type Restore = () => void

/** Replaces a property of an object, and gives what puts it back. */
const replace = <Holder extends object, Key extends keyof Holder>(
  holder: Holder,
  key: Key,
  make: (real: Holder[Key]) => Holder[Key]
): Restore => {
  const own = Object.getOwnPropertyDescriptor(holder, key)
  Object.defineProperty(holder, key, { configurable: true, writable: true, value: make(holder[key]) })
  return () => {
    if (own === undefined) Reflect.deleteProperty(holder, key)
    else Object.defineProperty(holder, key, own)
  }
}

/**
 * Until the result is called, every use of a real timer, clock, random, socket or file is noted with its place. It happens all the same: the run
 * goes on, and fails in the end.
 */
export const watch = (note: (misuse: string) => void): Restore => {
  /** Notes the call, unless it is none of ours. */
  const caught = (what: string): string | undefined => {
    const { stack = "" } = new Error(what)
    const place = placeOf(stack)
    if (place === undefined || isMachinery(stack)) return undefined
    if (!isHashing(place)) note(`${what} ${place}`)
    return place
  }
  const noting = <Call extends (...args: ReadonlyArray<never>) => unknown>(what: string, real: Call): Call =>
    new Proxy(real, {
      apply: (target, self, args: Array<unknown>): unknown => {
        caught(what)
        return Reflect.apply(target, self, args)
      }
    })
  const date = (real: DateConstructor): DateConstructor =>
    new Proxy(real, {
      construct: (target, args: Array<unknown>, made) => {
        if (args.length === 0) caught("new Date()")
        const date: unknown = Reflect.construct(target, args, made)
        return typeof date === "object" && date !== null ? date : new target(Number.NaN)
      },
      get: (target, key, receiver): unknown =>
        key === "now" ? noting("Date.now", target.now) : Reflect.get(target, key, receiver)
    })
  const random = (real: () => number) => (): number => {
    const place = caught("Math.random")
    return place !== undefined && isHashing(place) ? 0 : real()
  }
  const restores: ReadonlyArray<Restore> = [
    replace(globalThis, "setTimeout", (real) => noting("setTimeout", real)),
    replace(globalThis, "setInterval", (real) => noting("setInterval", real)),
    replace(globalThis, "setImmediate", (real) => noting("setImmediate", real)),
    replace(globalThis, "fetch", (real) => noting("fetch", real)),
    replace(globalThis, "Date", date),
    replace(performance, "now", (real) => noting("performance.now", real)),
    replace(process.hrtime, "bigint", (real) => noting("process.hrtime.bigint", real)),
    replace(Math, "random", random),
    replace(globalThis.crypto, "randomUUID", (real) => noting("crypto.randomUUID", real)),
    replace(globalThis.crypto, "getRandomValues", (real) => noting("crypto.getRandomValues", real)),
    replace(nodeCrypto, "randomUUID", (real) => noting("randomUUID", real)),
    replace(nodeCrypto, "randomBytes", (real) => noting("randomBytes", real)),
    replace(nodeDns, "lookup", (real) => noting("dns.lookup", real)),
    replace(net.Socket.prototype, "connect", (real) => noting("net.connect", real)),
    replace(net.Server.prototype, "listen", (real) => noting("net.listen", real)),
    replace(nodeFs, "openSync", (real) => noting("fs.openSync", real)),
    replace(nodeFs, "readFileSync", (real) => noting("fs.readFileSync", real)),
    replace(nodeFs, "readFile", (real) => noting("fs.readFile", real)),
    replace(nodeFs.promises, "readFile", (real) => noting("fs.promises.readFile", real)),
    replace(nodeFs.promises, "open", (real) => noting("fs.promises.open", real))
  ]
  syncBuiltinESMExports()
  return () => {
    for (const restore of restores) restore()
    syncBuiltinESMExports()
  }
}
