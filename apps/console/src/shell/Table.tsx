import type { ComponentChildren } from "preact"

/** A list of entries, which scrolls by itself where it is wider than the window. `head` has its columns. */
export const Table = ({
  children,
  head,
  label
}: {
  readonly children: ComponentChildren
  readonly head: ComponentChildren
  readonly label: string
}) => (
  <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
    <table class="list">
      <thead>
        <tr>{head}</tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
)
