import { Effect, Stream } from "effect"
import { Fault, text, type Host, type HostRequest } from "../Host.ts"

/** A bug of a script is logged, and answered with 500: its client would wait for ever. */
export const respond = (host: Host, request: HostRequest) =>
  Effect.suspend(() => host(request)).pipe(
    Effect.map((response) => ({
      ...response,
      body: Stream.catchCause(response.body, (cause) =>
        cause.reasons.some((reason) => reason._tag === "Die")
          ? Stream.unwrap(Effect.as(logBug(request, cause), Stream.fail(new Fault({ kind: "cut" }))))
          : Stream.failCause(cause)
      )
    })),
    Effect.catchDefect((defect) => Effect.as(logBug(request, defect), text(500, `The host died: ${String(defect)}`)))
  )

const logBug = (request: HostRequest, cause: unknown) =>
  Effect.logError(`The host died of ${request.method} ${request.url.href}`, cause)
