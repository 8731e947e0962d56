import { Cause, Deferred, Effect, Exit, Fiber, Queue, References, Stream } from "effect"
import type { HttpClient } from "effect/http"
import { Fault, type Host, type HostRequest, type HostResponse } from "../../http/Host.ts"
import { clientOf, type Connection, type Pieces } from "../../http/internal/MemoryClient.ts"
import { respond } from "../../http/internal/respond.ts"
import * as RequestLog from "../../http/RequestLog.ts"
import { planOf, type Process } from "../process/Process.ts"
import type { World } from "./World.ts"

/** The header by which a host learns which replica asks. */
export const replicaHeader = "x-simulated-replica"

/** The header with the id of the plan that asks; empty where none does. */
export const planHeader = "x-simulated-plan"

/** The header with the virtual time in milliseconds at which a request has left its replica. */
export const sentHeader = "x-simulated-sent"

/** Who looks at the requests for a host: when one leaves, whether it arrives or not, when a replica has got the first piece of its answer, and when the network resets the connection of one. */
export interface Watch {
  readonly onHeard?: (request: HostRequest, replica: string) => void
  readonly onSent?: (request: HostRequest) => void
  readonly onReset?: (request: HostRequest, replica: string) => void
}

interface Served extends Watch {
  readonly host: Host
}

interface Exchange {
  readonly process: Process
  readonly url: URL
  readonly reset: () => void
  isSilent: boolean
}

/** The network between the replicas and the hosts of the world. */
export class Wires {
  readonly #world: World
  readonly #hosts = new Map<string, Served>()
  readonly #open = new Set<Exchange>()
  /** Keeps what Effect would close when it is collected, at an instant that nobody can repeat. */
  readonly #kept: Array<unknown> = []
  /** Added to each request and to each piece of an answer, in milliseconds. */
  slowMs = 0

  constructor(world: World) {
    this.#world = world
  }

  serve(origin: string, host: Host, watch: Watch = {}): void {
    this.#hosts.set(origin, { host, ...watch })
  }

  /** The client of a process. Promises of one that was killed may still ask: nothing leaves, and nothing comes. */
  clientOf(process: Process): HttpClient.HttpClient {
    return clientOf((request, pieces) => {
      if (!process.isAlive) return { head: Deferred.makeUnsafe(), close: () => {} }
      const served = this.#hosts.get(request.url.origin)
      served?.onSent?.(request)
      const plan = planOf(Fiber.getCurrent()?.getRef(References.CurrentLogAnnotations) ?? {})
      const sent = { ...request, headers: { ...request.headers, [planHeader]: plan } }
      const connection = served && this.#connect(process, served, sent, pieces)
      this.#kept.push(connection, pieces)
      return connection
    })
  }

  /** The connections of a process that are open. */
  openOf(process: Process): ReadonlyArray<URL> {
    return Array.from(this.#open).flatMap((exchange) => (exchange.process === process ? [exchange.url] : []))
  }

  resetAll(process: Process): void {
    for (const exchange of Array.from(this.#open)) {
      if (exchange.process === process && !exchange.isSilent) exchange.reset()
    }
  }

  /** From now on not another byte comes on any open connection of the process. */
  silenceAll(process: Process): void {
    for (const exchange of this.#open) if (exchange.process === process) exchange.isSilent = true
  }

  #connect(process: Process, { host, onHeard, onReset }: Served, sent: HostRequest, pieces: Pieces): Connection {
    const head = Deferred.makeUnsafe<HostResponse, Fault>()
    const { random } = this.#world.process
    const stamps = { [replicaHeader]: process.name, [sentHeader]: String(this.#world.now) }
    const request = { ...sent, headers: { ...sent.headers, ...stamps } }
    const way = Effect.suspend(() => Effect.sleep(random.int(0, 3) + this.slowMs))
    const arrive = (task: () => void) => {
      if (!exchange.isSilent) process.post(task)
    }
    const answer = Effect.gen(function* () {
      yield* way
      const response = yield* respond(host, request)
      arrive(() => Deferred.doneUnsafe(head, Exit.succeed(response)))
      // Behind a dead connection the host fills its buffers, and then it waits.
      yield* Stream.runForEach(response.body, (bytes) =>
        exchange.isSilent
          ? Effect.never
          : Effect.sync(() =>
              arrive(() => {
                Queue.offerUnsafe(pieces, bytes)
                onHeard?.(sent, process.name)
              })
            )
      )
    })
    let fiber: Fiber.Fiber<void, Fault> | undefined
    let isClosed = false
    const breakOff = (fault: Fault) =>
      arrive(() => {
        Deferred.doneUnsafe(head, Exit.fail(fault))
        Queue.failCauseUnsafe(pieces, Cause.fail(fault))
      })
    const close = () => {
      isClosed = true
      this.#world.process.post(() => fiber?.interruptUnsafe())
    }
    const exchange: Exchange = {
      process,
      url: request.url,
      isSilent: false,
      reset: () => {
        // Over a dead connection no reset comes either.
        if (exchange.isSilent) return
        onReset?.(request, process.name)
        breakOff(new Fault({ kind: "reset" }))
        close()
      }
    }
    this.#open.add(exchange)
    const forget = process.onKill(close)
    this.#world.process.post(() => {
      fiber = Effect.runForkWith(this.#world.process.context)(answer)
      fiber.addObserver((exit) => {
        this.#open.delete(exchange)
        forget()
        if (Exit.isSuccess(exit)) arrive(() => void Queue.endUnsafe(pieces))
        else breakOff(RequestLog.faultOf(exit.cause) ?? new Fault({ kind: "cut" }))
      })
      if (isClosed) fiber.interruptUnsafe()
    })
    return { head, close }
  }
}
