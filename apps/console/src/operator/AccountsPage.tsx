import { createAccounts } from "@bowline/client/unstable/admin/OwnAccounts"
import { useSignal } from "@preact/signals"
import { useMemo } from "preact/hooks"
import { fetchOwn } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { useResource } from "../gateway/Resource.ts"
import { Empty, Loading, Problem } from "../shell/Notice.tsx"
import { Table } from "../shell/Table.tsx"
import { relative } from "../text/Format.ts"

/** Where the caller has let the gateway act as them, since when and with which rights; it can be taken back. */
export const AccountsPage = () => {
  const accounts = useMemo(() => createAccounts({ baseUrl: location.origin, fetch: fetchOwn }), [])
  const { data, error, refresh } = useResource("accounts", (signal) => accounts.list({ signal }), { every: 5_000 })
  const failure = useSignal<unknown>(undefined)
  const gone = useSignal("")
  const unlink = async (name: string) => {
    failure.value = undefined
    try {
      await accounts.remove(name)
      gone.value = `${name} is unlinked. A call that needs it waits until you connect it again.`
    } catch (error) {
      failure.value = error
    }
    refresh()
  }
  const list = data.value?.accounts
  return (
    <>
      <h1>Accounts</h1>
      <p>
        Your plans act as you at these accounts. Unlink one, and the gateway forgets its tokens and revokes them there.
      </p>
      <p role="status">{gone}</p>
      <Problem error={failure.value ?? error.value} />
      {list === undefined ? (
        error.value === undefined ? (
          <Loading />
        ) : null
      ) : list.length === 0 ? (
        <Empty title="No account is connected">
          <p>
            A call that has to act as you <a href="/waiting">waits</a>, with a link to connect the account.
          </p>
        </Empty>
      ) : (
        <Table
          label="Accounts"
          head={
            <>
              <th scope="col">Account</th>
              <th scope="col">Rights</th>
              <th scope="col">Connected</th>
              <th scope="col">Token ends</th>
              <td />
            </>
          }
        >
          {list.map(({ connected_at, expires_at, name, scopes }) => (
            <tr key={name}>
              <td class="wide">{name}</td>
              <td>{scopes.length === 0 ? "–" : scopes.join(", ")}</td>
              <td class="fit">
                <time dateTime={connected_at} title={new Date(connected_at).toUTCString()}>
                  {relative(Date.parse(connected_at), now())}
                </time>
              </td>
              <td class="fit dim">{expires_at === null ? "–" : relative(Date.parse(expires_at), now())}</td>
              <td class="fit">
                <button type="button" aria-label={`Unlink ${name}`} onClick={() => void unlink(name)}>
                  Unlink
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  )
}
