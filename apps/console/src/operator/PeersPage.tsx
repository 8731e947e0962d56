import type { Peer } from "@bowline/client"
import { now } from "../gateway/GatewayClock.ts"
import { bowline } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { Empty } from "../shell/Notice.tsx"
import { State } from "../shell/State.tsx"
import { Table } from "../shell/Table.tsx"
import { relative } from "../text/Format.ts"
import { AdminOnly } from "./AdminOnly.tsx"

/** By their names: a list that people look through. */
const inOrder = (peers: ReadonlyArray<Peer>): ReadonlyArray<Peer> =>
  peers.toSorted((a, b) => (a.card?.name ?? a.endpoint).localeCompare(b.card?.name ?? b.endpoint))

const when = (at: string): string => relative(Date.parse(at), now())

/** The peers and MCP servers that this process of the gateway has spoken to. */
export const PeersPage = () => {
  const resource = useResource("peers", (signal) => bowline.peers.list().page(undefined, { signal }), { every: 5_000 })
  return (
    <AdminOnly title="Peers and MCP servers" resource={resource}>
      {({ mcp_servers, peers }) => (
        <>
          <h2>Peers</h2>
          {peers.length === 0 ? (
            <Empty title="No peer was called yet">
              <p>
                A peer stands here as soon as a plan has called it. <a href="/">Ask a question</a> with agents.
              </p>
            </Empty>
          ) : (
            <Table
              label="Peers"
              head={
                <>
                  <th scope="col">Circuit</th>
                  <th scope="col">Endpoint</th>
                  <th scope="col">Card</th>
                  <th scope="col">Dialect</th>
                  <th scope="col">Card read</th>
                </>
              }
            >
              {inOrder(peers).map(({ breaker, card, dialect, endpoint }) => (
                <tr key={endpoint}>
                  <td class="fit">
                    <State
                      state={breaker.state}
                      words={
                        breaker.open_until === null
                          ? breaker.state
                          : `${breaker.state}, ends ${when(breaker.open_until)}`
                      }
                    />
                  </td>
                  <td class="wide code">{endpoint}</td>
                  <td>{card?.name ?? <span class="dim">none read</span>}</td>
                  <td class="fit dim">{dialect ?? "not known yet"}</td>
                  <td class="fit dim">{card === null ? "" : when(card.fetched_at)}</td>
                </tr>
              ))}
            </Table>
          )}
          <h2>MCP servers</h2>
          {mcp_servers.length === 0 ? (
            <Empty title="No MCP server was connected yet">
              <p>Name one in the configuration, or in the request of a plan.</p>
            </Empty>
          ) : (
            <Table
              label="MCP servers"
              head={
                <>
                  <th scope="col">State</th>
                  <th scope="col">Server</th>
                  <th scope="col">Revision</th>
                  <th scope="col">Last error</th>
                </>
              }
            >
              {mcp_servers.map(({ error, revision, url }) => (
                <tr key={url}>
                  <td class="fit">
                    <State state={error === null ? "connected" : "error"} />
                  </td>
                  <td class="wide code">{url}</td>
                  <td class="fit dim">{revision ?? "not known yet"}</td>
                  <td>{error ?? ""}</td>
                </tr>
              ))}
            </Table>
          )}
        </>
      )}
    </AdminOnly>
  )
}
