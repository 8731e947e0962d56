import nodeChildProcess from "node:child_process"
import nodeCrypto from "node:crypto"
import nodeDgram from "node:dgram"
import nodeDns from "node:dns"
import nodeFs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import nodeNet from "node:net"
import nodeTimers from "node:timers"
import timersPromises from "node:timers/promises"
import nodeWorkers from "node:worker_threads"
import nodeZlib from "node:zlib"
import type { Loop } from "./Loop.ts"
import { epoch, running } from "./Process.ts"

/** The line of our sources, or of an app's, that did it; undefined for the machinery of Node.js and of tests. */
const placeOf = (stack: string): string | undefined =>
  stack
    .split("\n")
    .slice(1)
    .map((line) => line.trim())
    .find((line) => !/RealWorld\.[jt]s|node:internal|node:|\(<anonymous>\)$|at new Promise|at ClockImpl\./.test(line))

/**
 * Tests; the turn for which Effect waits when it drops a stream of Node.js; and where Node.js looks for a module that it has loaded already.
 * Nothing of a run depends on it.
 */
const isMachinery = (stack: string): boolean =>
  /node_modules\/(vitest|@vitest|vite|tinyp|@voidzero)|platform-node-shared\/dist\/internal\/stream|node:internal\/modules\/esm/.test(
    stack
  )

/** So many lines of it, whatever the process shows of others. */
const stackOf = (what: string): string => {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 20
  const { stack = "" } = new Error(what)
  Error.stackTraceLimit = stackTraceLimit
  return stack
}

/** Effect hashes objects by random numbers, which are 0 here: the order of its maps must not depend on them. */
const isHashing = (place: string): boolean => /\/effect\/(dist|src)\/Hash\./.test(place)

/**
 * Their timers and clocks get the time of the run: the clients of MCP and of Postgres, and PGlite, take no clock of ours, the
 * cache of Effect asks the clock of a fiber that is over when whoever asked for the value first has left, and its HTTP server waits for a client that has not
 * sent its whole body when it is refused.
 */
const isForeign = (place: string): boolean =>
  /node_modules\/@(modelcontextprotocol|effect\/(sql-pg|platform-node)|electric-sql\/pglite)\/|\/effect\/(dist|src)\/Cache\./.test(
    place
  )

/** The client of MCP and the HTTP server are of one process: they stand still with it. The database is of all. */
const isOfProcess = (place: string): boolean =>
  /\/node_modules\/@(modelcontextprotocol|effect\/platform-node)\//.test(place)

/** The client of Postgres draws the names of its prepared statements, which nobody sees. */
const isNaming = (place: string): boolean => /node_modules\/@effect\/sql-pg\/dist\/PgConnection\./.test(place)

type Restore = () => void
type Call = (...args: ReadonlyArray<never>) => unknown

/** Gives a property of an object another value, and gives what puts the old one back. */
const redefine = (holder: object, key: PropertyKey, value: unknown): Restore => {
  const own = Object.getOwnPropertyDescriptor(holder, key)
  Object.defineProperty(holder, key, { configurable: true, writable: true, value })
  return () => {
    if (own === undefined) Reflect.deleteProperty(holder, key)
    else Object.defineProperty(holder, key, own)
  }
}

const replace = <Holder extends object, Key extends keyof Holder>(
  holder: Holder,
  key: Key,
  make: (real: Holder[Key]) => Holder[Key]
): Restore => redefine(holder, key, make(holder[key]))

const isCall = (value: unknown): value is Call => typeof value === "function"

/** The functions of a module, without its classes. */
const callsOf = (module: object): ReadonlyArray<string> =>
  Object.entries(module).flatMap(([name, value]: [string, unknown]) =>
    isCall(value) && /^[a-z]/.test(name) && Object.getOwnPropertyDescriptor(module, name)?.configurable === true
      ? [name]
      : []
  )

/** Those of `node:crypto` that are random. */
const randoms = callsOf(nodeCrypto).filter((name) => /^(random|generate|pseudoRandom|prng|rng)/.test(name))

/** By the name under which a use of them is told. */
const watched: ReadonlyArray<readonly [string, object, ReadonlyArray<string>]> = [
  ["", globalThis, ["setInterval", "setImmediate", "fetch"]],
  ["AbortSignal", AbortSignal, ["timeout"]],
  ["process", process, ["hrtime", "uptime"]],
  ["process.hrtime", process.hrtime, ["bigint"]],
  ["timers", nodeTimers, ["setInterval", "setImmediate"]],
  ["timers/promises", timersPromises, callsOf(timersPromises)],
  ["timers/promises.scheduler", timersPromises.scheduler, ["wait", "yield"]],
  ["crypto", globalThis.crypto, ["randomUUID", "getRandomValues"]],
  ["crypto.subtle", globalThis.crypto.subtle, Object.keys(SubtleCrypto.prototype)],
  ["crypto", nodeCrypto, randoms],
  ["crypto", nodeCrypto, ["scrypt", "pbkdf2", "hkdf"]],
  ["zlib", nodeZlib, callsOf(nodeZlib).filter((name) => !/Sync$|^crc32$/.test(name))],
  ["dns", nodeDns, callsOf(nodeDns)],
  ["dns.promises", nodeDns.promises, callsOf(nodeDns.promises)],
  ["net", nodeNet.Socket.prototype, ["connect"]],
  ["net", nodeNet.Server.prototype, ["listen"]],
  ["dgram", nodeDgram.Socket.prototype, ["bind", "connect", "send"]],
  ["child_process", nodeChildProcess, callsOf(nodeChildProcess)],
  ["fs", nodeFs, callsOf(nodeFs)],
  ["fs.promises", nodeFs.promises, callsOf(nodeFs.promises)]
]

/**
 * Until the result is called, every use of a real timer, clock, random, socket, file, process or thread is noted with its place. It happens all
 * the same: the run goes on, and fails in the end.
 */
export const watch = (note: (misuse: string) => void, loop: Loop): Restore => {
  /** Notes the call, unless it is none of ours, or the run answers it. */
  const caught = (what: string, isAnswered: (place: string) => boolean = () => false): string | undefined => {
    const stack = stackOf(what)
    const place = placeOf(stack)
    if (place === undefined || isMachinery(stack)) return undefined
    if (!isAnswered(place)) note(`${what} ${place}`)
    return place
  }
  const noting = (holder: object, name: string, what: string): Restore => {
    const real: unknown = Reflect.get(holder, name)
    if (!isCall(real)) return () => {}
    const noted = new Proxy(real, {
      apply: (target, self, args: Array<unknown>): unknown => {
        caught(what, name === "randomBytes" ? isNaming : undefined)
        return Reflect.apply(target, self, args)
      }
    })
    return redefine(holder, name, noted)
  }
  const timers = new WeakMap<object, () => void>()
  const timeout = (real: typeof setTimeout): typeof setTimeout =>
    new Proxy(real, {
      apply: (target, self, args: Array<unknown>): unknown => {
        const [ring, ms] = args
        const place = caught("setTimeout", isForeign)
        if (place === undefined || !isForeign(place) || !isCall(ring)) return Reflect.apply(target, self, args)
        const timer = { unref: () => timer }
        const process = isOfProcess(place) ? running.getStore() : undefined
        let isOpen = true
        const task = () => void (isOpen && ring())
        const cancel = loop.after(Number(ms), () => (process === undefined ? task() : process.post(task)))
        timers.set(timer, () => {
          isOpen = false
          cancel()
        })
        return timer
      }
    })
  const clear = (real: typeof clearTimeout): typeof clearTimeout =>
    new Proxy(real, {
      apply: (target, self, args: Array<unknown>): unknown => {
        const [timer] = args
        const cancel = typeof timer === "object" && timer !== null ? timers.get(timer) : undefined
        return cancel === undefined ? Reflect.apply(target, self, args) : cancel()
      }
    })
  const dateNow = (real: () => number) => (): number => {
    const place = caught("Date.now", isForeign)
    return place !== undefined && isForeign(place) ? epoch + loop.now : real()
  }
  const performanceNow = (real: () => number) => (): number => {
    const place = caught("performance.now", isForeign)
    return place !== undefined && isForeign(place) ? loop.now : real.call(performance)
  }
  const date = (real: DateConstructor): DateConstructor =>
    new Proxy(real, {
      apply: (target, self, args: Array<unknown>): unknown => {
        caught("Date()")
        return Reflect.apply(target, self, args)
      },
      construct: (target, args: Array<unknown>, made) => {
        if (args.length === 0) caught("new Date()")
        const date: unknown = Reflect.construct(target, args, made)
        return typeof date === "object" && date !== null ? date : new target(Number.NaN)
      },
      get: (target, key, receiver): unknown =>
        key === "now" ? dateNow(target.now) : Reflect.get(target, key, receiver)
    })
  const random = (real: () => number) => (): number => {
    const place = caught("Math.random", isHashing)
    return place !== undefined && isHashing(place) ? 0 : real()
  }
  const worker = (real: typeof nodeWorkers.Worker): typeof nodeWorkers.Worker =>
    new Proxy(real, {
      construct: (target, args: Array<unknown>, made) => {
        caught("new Worker()")
        const worker: unknown = Reflect.construct(target, args, made)
        return typeof worker === "object" && worker !== null ? worker : {}
      }
    })
  const restores: ReadonlyArray<Restore> = [
    ...watched.flatMap(([module, holder, names]) =>
      names.map((name) => noting(holder, name, module === "" ? name : `${module}.${name}`))
    ),
    replace(globalThis, "setTimeout", timeout),
    replace(nodeTimers, "setTimeout", timeout),
    replace(globalThis, "clearTimeout", clear),
    replace(globalThis, "Date", date),
    replace(performance, "now", performanceNow),
    replace(Math, "random", random),
    replace(nodeWorkers, "Worker", worker)
  ]
  syncBuiltinESMExports()
  return () => {
    for (const restore of restores) restore()
    syncBuiltinESMExports()
  }
}
