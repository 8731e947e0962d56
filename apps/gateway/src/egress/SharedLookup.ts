import type { LookupFunction } from "node:net"

/** Of the 16 lookups that the threads of the process allow at once (`bin/bowline.mjs`). There are two such resolvers. */
const maxRunning = 8

/** After how many milliseconds a connection without an address is given up, by Undici. */
const maxWait = 10_000

interface Asker {
  readonly since: number
  readonly callback: Parameters<LookupFunction>[2]
}

/**
 * A resolver whose users together have a part of the threads, and each name one lookup at a time: the system's resolver holds a thread until a
 * name server answers, or it gives up itself, mostly after 10 s and more.
 */
export const make = (lookup: LookupFunction, now: () => number = () => performance.now()): LookupFunction => {
  const asked = new Map<string, Array<Asker>>()
  const waiting: Array<() => void> = []
  let running = 0
  const proceed = () => {
    while (running < maxRunning) {
      const begin = waiting.shift()
      if (begin === undefined) return
      begin()
    }
  }
  return (host, options, callback) => {
    const key = `${host} ${options.all} ${options.family}`
    const asker = { since: now(), callback }
    const others = asked.get(key)
    if (others !== undefined) return void others.push(asker)
    const askers = [asker]
    asked.set(key, askers)
    waiting.push(() => {
      // Each waits from when it has asked: whoever joined later still does.
      const late = askers.filter(({ since }) => now() - since > maxWait)
      askers.splice(0, late.length)
      if (askers.length === 0) asked.delete(key)
      else {
        running++
        lookup(host, options, (...answer) => {
          running--
          asked.delete(key)
          for (const { callback } of askers) callback(...answer)
          proceed()
        })
      }
      for (const { callback } of late) callback(new Error(`Other names kept the resolver from ${host}`), [])
    })
    proceed()
  }
}
