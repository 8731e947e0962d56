import { useSignal } from "@preact/signals"
import { useEffect, useRef } from "preact/hooks"
import { askJson } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { useResource } from "../gateway/Resource.ts"
import { planHref } from "../route/Route.ts"
import { Problem } from "../shell/Notice.tsx"
import { State } from "../shell/State.tsx"
import { Table } from "../shell/Table.tsx"
import { count, cutMiddle, relative, unknown } from "../text/Format.ts"

interface Delivery {
  readonly delivery_id: string
  readonly url: string
  readonly event: string
  readonly state: "pending" | "delivered" | "dropped"
  readonly tries: number
  readonly last_status: number | null
  readonly next_try_at: string | null
}

/** How often deliveries that are pending are looked at, in milliseconds. */
const lookEvery = 3_000

const words = { pending: "not delivered yet", delivered: "delivered", dropped: "given up" } as const

const nextOf = ({ next_try_at, state }: Delivery): string => {
  if (state !== "pending" || next_try_at === null) return unknown
  const at = Date.parse(next_try_at)
  return at <= now() ? "now" : relative(at, now())
}

/** What the webhooks of a plan were told, and a way to tell one once more; nothing where there are none. `state` is that of the plan. */
export const Deliveries = ({ planId, state }: { readonly planId: string; readonly state: string }) => {
  const path = `${planHref(planId)}/webhooks`
  const { data, refresh } = useResource(
    path,
    // The gateway's answers have the shapes of its API.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    async (signal) => (await askJson(path, { signal }))["deliveries"] as ReadonlyArray<Delivery>
  )
  const failure = useSignal<unknown>(undefined)
  const deliveries = data.value ?? []
  const isPending = deliveries.some((delivery) => delivery.state === "pending")
  const seen = useRef(state)
  useEffect(() => {
    if (seen.current !== state) refresh()
    seen.current = state
  }, [state])
  useEffect(() => {
    const timer = isPending ? setInterval(() => document.hidden || refresh(), lookEvery) : undefined
    return () => clearInterval(timer)
  }, [isPending])

  const retry = async (id: string) => {
    failure.value = undefined
    await askJson(`${path}/${encodeURIComponent(id)}/retry`, { method: "POST" }).catch((error: unknown) => {
      failure.value = error
    })
    refresh()
  }

  return deliveries.length === 0 ? null : (
    <section aria-label="Webhooks">
      <h2>Webhooks</h2>
      <Problem error={failure.value} />
      <Table
        label="Deliveries to webhooks"
        head={
          <>
            <th scope="col">State</th>
            <th scope="col">Event</th>
            <th scope="col">To</th>
            <th scope="col" class="number">
              Tries
            </th>
            <th scope="col" class="number">
              Last answer
            </th>
            <th scope="col">Next try</th>
            <td />
          </>
        }
      >
        {deliveries.map((delivery) => (
          <tr key={delivery.delivery_id}>
            <td class="fit">
              <State state={delivery.state} words={words[delivery.state]} />
            </td>
            <td class="fit code">{delivery.event}</td>
            <td class="wide" title={delivery.url}>
              {cutMiddle(delivery.url, 60)}
            </td>
            <td class="fit number" data-label="Tries">
              {count(delivery.tries)}
            </td>
            <td class="fit number" data-label="Last answer">
              {delivery.last_status ?? (delivery.tries === 0 ? unknown : "none")}
            </td>
            <td class="fit dim" data-label="Next try">
              {nextOf(delivery)}
            </td>
            <td class="fit">
              <button type="button" class="quiet" onClick={() => void retry(delivery.delivery_id)}>
                Try again<span class="unseen"> {`${delivery.event} to ${delivery.url}`}</span>
              </button>
            </td>
          </tr>
        ))}
      </Table>
    </section>
  )
}
