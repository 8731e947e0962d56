import { Effect, Layer, Schedule, Semaphore } from "effect"
import { HttpClient, type HttpClientError, HttpClientResponse } from "effect/http"

/** How many exports of a signal may be under way. Whatever else is to be exported meanwhile is dropped. */
const maxExports = 4

const retries = { times: 3, schedule: Schedule.jittered(Schedule.exponential("200 millis")) }

const reasonOf = (error: HttpClientError.HttpClientError): string => {
  const { reason } = error
  if (reason._tag === "StatusCodeError") return `The collector answered ${reason.response.status}`
  return reason._tag === "TransportError" ? "The collector cannot be reached" : "The collector gave no usable answer"
}

/**
 * The HTTP client of one exporter. A collector that is down, slow or hanging costs a bounded time and a bounded memory: an export that has
 * not succeeded within `timeout` milliseconds fails for good, and the exporter then exports nothing for a minute. The log has one
 * warning when the exports begin to fail, and one line when they succeed again.
 */
export const layer = ({ signal, timeout }: { readonly signal: string; readonly timeout: number }) =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.gen(function* () {
      const places = yield* Semaphore.make(maxExports)
      let isFailing = false

      const succeeded = Effect.suspend(() => {
        if (!isFailing) return Effect.void
        isFailing = false
        return Effect.annotateLogs(Effect.logInfo("telemetry_export_resumed"), { signal })
      })
      const gaveUp = (reason: string) =>
        Effect.suspend(() => {
          const isNew = !isFailing
          isFailing = true
          const warn = Effect.annotateLogs(Effect.logWarning("telemetry_export_failed"), { signal, reason })
          // Not a failure: the exporter would try again, and keep what it has for as long as the collector wishes.
          return Effect.andThen(isNew ? warn : Effect.void, Effect.die(reason))
        })

      const bounded = (
        sent: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>
      ): Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError> =>
        sent.pipe(
          Effect.flatMap(HttpClientResponse.filterStatusOk),
          // Within the time: a collector may send the head of its answer, and nothing more.
          Effect.tap((response) => response.arrayBuffer),
          Effect.retry({ ...retries, while: HttpClient.isTransientError }),
          Effect.timeoutOrElse({ duration: timeout, orElse: () => gaveUp("The collector did not answer in time") }),
          Effect.catch((error) => gaveUp(reasonOf(error))),
          Effect.tap(succeeded),
          places.withPermitsIfAvailable(1),
          Effect.flatMap(Effect.fromOption),
          Effect.catch(() => gaveUp("The collector is slower than the gateway"))
        )
      return HttpClient.transformResponse(yield* HttpClient.HttpClient, bounded)
    })
  )
