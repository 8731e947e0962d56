import type { ComponentChildren } from "preact"
import { isProblem, type Resource } from "../gateway/Resource.ts"
import { Loading, Problem } from "../shell/Notice.tsx"

/** A page for callers marked `admin`. Others are told so. */
export const AdminOnly = <A,>({
  children,
  resource,
  title
}: {
  readonly title: string
  readonly resource: Resource<A>
  readonly children: (data: A) => ComponentChildren
}) => {
  const data = resource.data.value
  const error = resource.error.value
  return (
    <>
      <h1>{title}</h1>
      {isProblem(error, "forbidden") ? (
        <p>
          This page is for callers marked <code>admin</code>. An operator sets them with{" "}
          <code>BOWLINE_ADMIN_CALLERS</code>.
        </p>
      ) : (
        <>
          <Problem error={error} />
          {data === undefined ? error === undefined ? <Loading /> : null : children(data)}
        </>
      )}
    </>
  )
}
