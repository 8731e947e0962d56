import { Data, Effect, Latch, Predicate, References, Result, type Scope } from "effect"
import type { BigIntStats } from "node:fs"
import { readFile, realpath, stat } from "node:fs/promises"
import { join, sep } from "node:path"
import * as Alarm from "../process/Alarm.ts"

/** The largest text of an operator, in bytes. */
const maxBytes = 262_144

/** A text that the app needs at its start cannot be used. */
export class UnusableText extends Data.TaggedError("UnusableText")<{ readonly path: string; readonly reason: string }> {
  override readonly message = `${this.path}: ${this.reason}`
}

/** A file as it was last seen: its text, or why it has none that can be used. */
export interface Seen {
  /** Differs once the file was changed, or another file has taken its place. */
  readonly stamp: string
  readonly text: Result.Result<string, string>
}

/** What `reasonOf` says of a file or a folder that does not exist. */
export const absent = "It does not exist"

const reasons: { readonly [code: string]: string } = {
  EACCES: "This process may not read it",
  ENOENT: absent,
  ENOTDIR: "It is not a folder",
  ELOOP: "Its symbolic links lead in a circle"
}

const reasonOf = (error: unknown): string => {
  const code = Predicate.hasProperty(error, "code") && Predicate.isString(error.code) ? error.code : "EIO"
  return reasons[code] ?? `It cannot be read (${code})`
}

/** Asks the file system. It fails with why a file or a folder cannot be read, without its name. */
export const ask = <A>(question: () => Promise<A>): Effect.Effect<A, string> =>
  Effect.tryPromise({ try: question, catch: reasonOf })

/** Differs once a file was changed, or another one has taken its place. */
export const stampOf = ({ ctimeNs, ino, mtimeNs, size }: BigIntStats): string =>
  // The change of the inode shows an edit that sets back the time of the content, too.
  [ino, size, mtimeNs, ctimeNs].join(" ")

const decode = (bytes: Uint8Array): Result.Result<string, string> => {
  const decoded = Result.try({
    try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
    catch: () => "It is not UTF-8"
  })
  return Result.flatMap(decoded, (text) => (text.trim() === "" ? Result.fail("It is empty") : Result.succeed(text)))
}

/** Why this is not read, if it is not. */
const unfit = (stats: BigIntStats, maxBytes: number): string | undefined => {
  // A pipe would be waited for.
  if (!stats.isFile()) return "It is not a file"
  return stats.size > maxBytes ? `It has more than ${maxBytes} bytes` : undefined
}

/** The largest file of the configuration, in bytes: that of a ConfigMap of Kubernetes. */
const maxConfigBytes = 1_048_576

/** Reads a file of the configuration. It fails with why it cannot be read, without its name. */
export const readConfig = Effect.fnUntraced(function* (path: string) {
  const reason = unfit(yield* ask(() => stat(path, { bigint: true })), maxConfigBytes)
  return reason === undefined ? yield* ask(() => readFile(path, "utf8")) : yield* Effect.fail(reason)
})

/** Fails if the file cannot be read now: that is no property of the file. */
const read = Effect.fnUntraced(function* (path: string, stats: BigIntStats, folder: string | undefined) {
  const reason = unfit(stats, maxBytes)
  if (reason !== undefined) return Result.fail(reason)
  const target = yield* ask(() => realpath(path))
  if (folder !== undefined && !target.startsWith(join(yield* ask(() => realpath(folder)), sep))) {
    return Result.fail("It is a symbolic link that leads out of the folder")
  }
  return decode(yield* ask(() => readFile(target)))
})

/**
 * Looks at a file, and reads it if it is not as it was `before`: else the result is `before` itself. With a `folder`, a file outside of it
 * is not read, wherever symbolic links lead.
 */
export const look = (path: string, before?: Seen, folder?: string): Effect.Effect<Seen> =>
  Effect.gen(function* () {
    const stats = yield* ask(() => stat(path, { bigint: true }))
    const stamp = stampOf(stats)
    return before?.stamp === stamp ? before : { stamp, text: yield* read(path, stats, folder) }
  }).pipe(
    Effect.catch((reason) =>
      Effect.succeed(before?.stamp === reason ? before : { stamp: reason, text: Result.fail(reason) })
    )
  )

/** How long plans wait for a look. When it has taken so long, they get what is known, until the disk has answered. */
const patienceMs = 1_000

/**
 * Runs a check whenever somebody wants to know, once for all that ask while it runs, and gives what is known afterwards. The scope owns
 * the check.
 */
export const refreshed = <A>(
  check: Effect.Effect<void>,
  known: () => A
): Effect.Effect<Effect.Effect<A>, never, Scope.Scope> =>
  Effect.map(Effect.scope, (scope) => {
    let isLooking = false
    /** Closed while a look runs that plans wait for. */
    const answered = Latch.makeUnsafe(true)
    const begin = Effect.withFiber(({ context }) => {
      isLooking = true
      answered.closeUnsafe()
      return Effect.succeed(Alarm.set(patienceMs, () => answered.openUnsafe(), context))
    })
    const end = (cancelAlarm: () => void) =>
      Effect.sync(() => {
        cancelAlarm()
        isLooking = false
        answered.openUnsafe()
      })
    // What begins, ends: also where the fiber that asks is interrupted on its way here, or the scope is closed already.
    const look = Effect.acquireUseRelease(begin, () => check, end).pipe(
      // The log tells of a file, and not of the plan that happened to look.
      Effect.provideService(References.CurrentLogAnnotations, {}),
      Effect.forkIn(scope, { startImmediately: true })
    )
    return Effect.gen(function* () {
      if (!isLooking) yield* look
      yield* answered.await
      return known()
    })
  })
