import type { McpServerStatus, Peer } from "@bowline/client"
import type { ComponentChildren } from "preact"
import { bowline } from "../gateway/Gateway.ts"
import { now } from "../gateway/GatewayClock.ts"
import { useResource } from "../gateway/Resource.ts"
import { here, setQuery } from "../route/Location.ts"
import { Empty } from "../shell/Notice.tsx"
import { State } from "../shell/State.tsx"
import { Table } from "../shell/Table.tsx"
import { count, duration, firstLine, relative, unknown } from "../text/Format.ts"
import { AdminOnly } from "./AdminOnly.tsx"
import { TryTool } from "./TryTool.tsx"

type Known = Pick<Peer, "calls" | "configured">

const when = (at: string): string => relative(Date.parse(at), now())

const namesOf = ({ configured }: Known): string => [...new Set(configured.map(({ name }) => name))].join(", ")

/** By their names: a list that people look through. */
const inOrder = (peers: ReadonlyArray<Peer>): ReadonlyArray<Peer> =>
  peers.toSorted((a, b) => (nameOf(a) ?? a.endpoint).localeCompare(nameOf(b) ?? b.endpoint))

const nameOf = (peer: Peer): string | null => namesOf(peer) || (peer.card?.name ?? null)

const LastError = ({ at, message }: { readonly at: string | null; readonly message: string }) => (
  <>
    <span title={message}>{firstLine(message, 120)}</span>
    {at === null ? null : (
      <time class="dim" dateTime={at} title={new Date(at).toUTCString()}>
        {" "}
        {when(at)}
      </time>
    )}
  </>
)

/** The numbers of the day, the last error, and a way to try it. */
const Day = ({
  children,
  known: { calls, configured }
}: {
  readonly known: Known
  readonly children: ComponentChildren
}) => (
  <>
    <td class="fit number" data-label="Calls of 24 h">
      {count(calls.calls)}
    </td>
    <td class="fit number" data-label="Failed">
      {count(calls.failures)}
    </td>
    <td class="fit number" data-label="Half">
      {calls.duration_ms === null ? unknown : duration(calls.duration_ms.p50)}
    </td>
    <td class="fit number" data-label="95 %">
      {calls.duration_ms === null ? unknown : duration(calls.duration_ms.p95)}
    </td>
    <td data-label="Last error">{children}</td>
    <td class="fit">
      {configured.slice(0, 1).map(({ name, preset }) => (
        <button
          key={name}
          type="button"
          class="quiet"
          onClick={() => setQuery({ try: `${preset}/${name}`, tool: null }, { replace: false })}
        >
          Try a tool<span class="unseen"> of {name}</span>
        </button>
      ))}
    </td>
  </>
)

const head = (
  <>
    <th scope="col" class="number">
      Calls of 24 h
    </th>
    <th scope="col" class="number">
      Failed
    </th>
    <th scope="col" class="number">
      Half
    </th>
    <th scope="col" class="number">
      95 %
    </th>
    <th scope="col">Last error</th>
    <th scope="col">Try</th>
  </>
)

/** One that only requests have named has no name but its address. */
const Place = ({ address, name }: { readonly name: string | null; readonly address: string }) =>
  name === null ? (
    <>
      <span class="code">{address}</span>
      <span class="under dim">not configured</span>
    </>
  ) : (
    <>
      {name}
      <span class="under code dim">{address}</span>
    </>
  )

const PeerRow = ({ peer }: { readonly peer: Peer }) => {
  const { breaker, calls, card, dialect, endpoint } = peer
  const words = breaker.open_until === null ? breaker.state : `${breaker.state}, ends ${when(breaker.open_until)}`
  return (
    <tr>
      <td class="wide">
        <Place name={nameOf(peer)} address={endpoint} />
      </td>
      <td class="fit" data-label="Circuit">
        <State state={breaker.state} words={words} />
        <span class="under dim" title={card === null ? undefined : `Card read ${when(card.fetched_at)}`}>
          {dialect ?? "dialect not known yet"}
        </span>
      </td>
      <Day known={peer}>
        {calls.last_error === null ? "" : <LastError at={calls.last_error.at} message={calls.last_error.message} />}
      </Day>
    </tr>
  )
}

const ServerRow = ({ server }: { readonly server: McpServerStatus }) => {
  const { calls, error, error_at, revision, url } = server
  const isKnown = revision !== null || error !== null
  const last = error === null ? calls.last_error : { at: error_at, message: error }
  return (
    <tr>
      <td class="wide">
        <Place name={namesOf(server) || null} address={url} />
      </td>
      <td class="fit" data-label="State">
        {isKnown ? (
          <State state={error === null ? "connected" : "error"} />
        ) : (
          <span class="dim">not connected yet</span>
        )}
        <span class="under dim">{revision}</span>
      </td>
      <Day known={server}>{last === null ? "" : <LastError at={last.at} message={last.message} />}</Day>
    </tr>
  )
}

/** What is tried, as `preset/name` of the URL. */
const Tried = () => {
  const [, preset, name] = /^([^/]*)\/(.+)$/.exec(here.value.query.get("try") ?? "") ?? []
  return preset === undefined || name === undefined ? null : (
    <TryTool key={`${preset} ${name}`} preset={preset} name={name} />
  )
}

/** The peers and MCP servers that are configured or were called, how their calls went today, and a way to try one. */
export const PeersPage = () => {
  const resource = useResource("peers", (signal) => bowline.peers.list().page(undefined, { signal }), { every: 15_000 })
  return (
    <AdminOnly title="Peers and MCP servers" resource={resource}>
      {({ mcp_servers, peers }) => (
        <>
          <Tried />
          <h2>Peers</h2>
          {peers.length === 0 ? (
            <Empty title="No peer was called yet">
              <p>
                A peer stands here when it is configured, or a plan has called it. <a href="/">Ask a question</a> with
                agents.
              </p>
            </Empty>
          ) : (
            <Table
              label="Peers"
              head={
                <>
                  <th scope="col">Peer</th>
                  <th scope="col">Circuit</th>
                  {head}
                </>
              }
            >
              {inOrder(peers).map((peer) => (
                <PeerRow key={peer.endpoint} peer={peer} />
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
                  <th scope="col">Server</th>
                  <th scope="col">State</th>
                  {head}
                </>
              }
            >
              {mcp_servers.map((server) => (
                <ServerRow key={server.url} server={server} />
              ))}
            </Table>
          )}
        </>
      )}
    </AdminOnly>
  )
}
