import { Data, Duration, Effect, Result, type Scope } from "effect"
import { extname } from "node:path"
import { Worker } from "node:worker_threads"
import type { Verdict } from "./Validation.ts"
import type { Candidate } from "./ValidationWorker.ts"

/** How long it may take to compile a schema and check arguments, in milliseconds, without the start of the thread. */
const timeLimit = 250
/** The same limit on a busy machine, where the thread does not get a whole processor. */
const starvedLimit = 2_500
/** How long the thread may take to start, in seconds. */
const startLimit = 15

const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16, codeRangeSizeMb: 16 }

/** A check that was ended with its thread. */
export class CheckEnded extends Data.TaggedError("CheckEnded")<{ readonly reason: string }> {}

const ended = (error: unknown): CheckEnded =>
  new CheckEnded({
    reason:
      error instanceof Error && "code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY"
        ? `It takes more than ${resourceLimits.maxOldGenerationSizeMb} MiB of memory`
        : `It ends the thread that checks it: ${error instanceof Error ? error.message : String(error)}`
  })

type Answer = Result.Result<Verdict, CheckEnded>

/** How long all other threads of the process have worked, in microseconds. Node.js does not say it of one thread while that thread is busy. */
const workOfOthers = (): number => {
  const all = process.cpuUsage()
  const own = process.threadCpuUsage()
  return all.user + all.system - own.user - own.system
}

/**
 * Calls `late` once the limit has passed and threads other than this one have worked for as long, until `stop` is called. It is real time, whatever
 * the clock says.
 */
export const watch = (late: () => void): (() => void) => {
  const before = workOfOthers()
  const begun = performance.now()
  const look = () => {
    const isOver = workOfOthers() - before >= timeLimit * 1_000 || performance.now() - begun >= starvedLimit
    // An answer that came while this thread was busy is read before the immediate runs.
    if (isOver) immediate = setImmediate(late)
    else timer.refresh()
  }
  // @effect-diagnostics-next-line globalTimers:off
  const timer = setTimeout(look, timeLimit)
  let immediate: NodeJS.Immediate | undefined
  return () => {
    clearTimeout(timer)
    clearImmediate(immediate)
  }
}

/** Waits for the next answer of the thread, with or without the limit of a check, until `stop` is called. */
const listen = (worker: Worker, isLimited: boolean, done: (answer: Answer) => void): (() => void) => {
  const end = (answer: Answer) => {
    stop()
    done(answer)
  }
  const onMessage = (verdict: Verdict) => end(Result.succeed(verdict))
  const onError = (error: unknown) => end(Result.fail(ended(error)))
  const onExit = (code: number) => onError(`exit code ${code}`)
  const unwatch = isLimited
    ? watch(() => end(Result.fail(new CheckEnded({ reason: `It takes more than ${timeLimit} ms` }))))
    : () => undefined
  const stop = () => {
    unwatch()
    worker.off("message", onMessage).off("error", onError).off("exit", onExit)
  }
  worker.on("message", onMessage).on("error", onError).on("exit", onExit)
  return stop
}

const nextAnswer = (worker: Worker, isLimited: boolean): Effect.Effect<Verdict, CheckEnded> =>
  Effect.callback((resume) => {
    const stop = listen(worker, isLimited, (answer) => resume(Effect.fromResult(answer)))
    return Effect.sync(stop)
  })

// Its sources run as they are, and as JavaScript.
const entry = new URL(`./ValidationWorker${extname(import.meta.url)}`, import.meta.url)

const create = (): Worker => {
  // It sees no variable of the environment, so no secret.
  const worker = new Worker(entry, { resourceLimits, env: {}, execArgv: [], name: "input-validation" })
  // An error that nobody listens to would end the process.
  return worker.on("error", () => undefined)
}

/**
 * A thread that checks arguments, one call of `check` at a time. It is started for the first one, and killed when a check takes more than 250 ms or
 * 64 MiB, or is interrupted; the next check starts another one.
 */
export const make: Effect.Effect<
  { readonly check: (candidate: Candidate) => Effect.Effect<Verdict, CheckEnded> },
  never,
  Scope.Scope
> = Effect.gen(function* () {
  let worker: Worker | undefined

  const kill = Effect.promise(async () => {
    const killed = worker
    worker = undefined
    await killed?.terminate()
  })
  yield* Effect.addFinalizer(() => kill)

  const start = Effect.suspend(() => {
    const started = (worker = create())
    const abandon = Effect.suspend(() => {
      worker = undefined
      // A thread that does not start may not end either: nobody waits for it.
      void started.terminate()
      return Effect.fail(new CheckEnded({ reason: `The thread that checks it did not start within ${startLimit} s` }))
    })
    return nextAnswer(started, false).pipe(
      Effect.timeoutOrElse({ duration: Duration.seconds(startLimit), orElse: () => abandon }),
      Effect.as(started)
    )
  })

  const ask = (thread: Worker, candidate: Candidate) =>
    Effect.suspend(() => {
      thread.postMessage(candidate)
      return nextAnswer(thread, true)
    })

  const askNew = (candidate: Candidate) =>
    Effect.flatMap(start, (thread) => ask(thread, candidate)).pipe(Effect.onError(() => kill))

  return {
    check: (candidate) =>
      Effect.suspend(() => {
        if (worker === undefined) return askNew(candidate)
        // Earlier checks in the same thread may have used up its memory. A check in a new thread decides.
        return ask(worker, candidate).pipe(
          Effect.onError(() => kill),
          Effect.catchTag("CheckEnded", () => askNew(candidate))
        )
      })
  }
})
