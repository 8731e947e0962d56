import type { LookupFunction } from "node:net"

/** Of the 16 lookups that the threads of the process allow at once (`bin/bowline.mjs`). There are two such resolvers. */
const maxRunning = 8

/** After how many milliseconds a connection without an address is given up, by Undici. */
const maxWait = 10_000

/**
 * A resolver whose users together have a part of the threads, and each name one lookup at a time: the system's resolver holds a thread until a
 * name server answers, or it gives up itself, mostly after 10 s and more.
 */
export const make = (lookup: LookupFunction, now: () => number = () => performance.now()): LookupFunction => {
  const asked = new Map<string, Array<Parameters<LookupFunction>[2]>>()
  const waiting: Array<() => void> = []
  let running = 0
  const proceed = () => {
    while (running < maxRunning) {
      const begin = waiting.shift()
      if (begin === undefined) return
      running++
      begin()
    }
  }
  return (host, options, callback) => {
    const key = `${host} ${options.all} ${options.family}`
    const others = asked.get(key)
    if (others !== undefined) return void others.push(callback)
    const callbacks = [callback]
    asked.set(key, callbacks)
    const since = now()
    const settle: typeof callback = (...answer) => {
      running--
      asked.delete(key)
      for (const callback of callbacks) callback(...answer)
    }
    waiting.push(() => {
      // Nobody waits for it any more.
      if (now() - since > maxWait) return settle(new Error(`Other names kept the resolver from ${host}`), [])
      lookup(host, options, (...answer) => {
        settle(...answer)
        proceed()
      })
    })
    proceed()
  }
}
