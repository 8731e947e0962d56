import { useSignal } from "@preact/signals"
import { now } from "../gateway/GatewayClock.ts"
import { bowline } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { Empty, Problem } from "../shell/Notice.tsx"
import { State } from "../shell/State.tsx"
import { Table } from "../shell/Table.tsx"
import { relative } from "../text/Format.ts"
import { AdminOnly } from "./AdminOnly.tsx"

const words = { ok: "ready", cooldown: "some models wait", out: "put aside" } as const

/** The providers' credentials, by their ids, and why one is put aside. */
export const CredentialsPage = () => {
  const resource = useResource("credentials", (signal) => bowline.credentials.list().page(undefined, { signal }), {
    every: 5_000
  })
  const failure = useSignal<unknown>(undefined)
  const clear = async (id: string) => {
    failure.value = undefined
    await bowline.credentials.clear(id).catch((error: unknown) => {
      failure.value = error
    })
    resource.refresh()
  }
  return (
    <AdminOnly title="Credentials" resource={resource}>
      {({ credentials }) => (
        <>
          <Problem error={failure.value} />
          {credentials.length === 0 ? (
            <Empty title="No credential is configured">
              <p>
                Set <code>OPENAI_API_KEY</code> or another provider's key. Until then a scripted provider answers.
              </p>
            </Empty>
          ) : (
            <Table
              label="Credentials"
              head={
                <>
                  <th scope="col">State</th>
                  <th scope="col">Credential</th>
                  <th scope="col">Provider</th>
                  <th scope="col">Put aside</th>
                  <th scope="col">Last used</th>
                  <td />
                </>
              }
            >
              {credentials.map(({ id, last_used_at, provider, state, windows }) => (
                <tr key={id}>
                  <td class="fit">
                    <State state={state} words={words[state]} />
                  </td>
                  <td class="wide">{id}</td>
                  <td class="fit dim">{provider}</td>
                  <td>
                    {windows.map(({ model, reason, until }) => (
                      <div key={`${model ?? ""} ${reason}`}>
                        <span class="code">{reason}</span> {model ?? "all models"}, ends{" "}
                        {relative(Date.parse(until), now())}
                      </div>
                    ))}
                  </td>
                  <td class="fit dim">{last_used_at === null ? "never" : relative(Date.parse(last_used_at), now())}</td>
                  <td class="fit">
                    {windows.length === 0 ? null : (
                      <button type="button" aria-label={`Reset ${id}`} onClick={() => void clear(id)}>
                        Reset
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </>
      )}
    </AdminOnly>
  )
}
