import type { ComponentChildren } from "preact"
import { CopyButton } from "./CopyButton.tsx"

/** A text that somebody else wrote, under its title, to be copied. */
export const Block = ({
  children,
  note,
  title
}: {
  readonly title: string
  readonly children: string
  /** What is to be said of it in a few words. */
  readonly note?: ComponentChildren
}) => (
  <section class="block" aria-label={title}>
    <header>
      <h3>{title}</h3>
      {note === undefined ? null : <span class="dim">{note}</span>}
      <CopyButton label="Copy" what={`Copy: ${title}`} text={children} />
    </header>
    <pre tabIndex={0} aria-label={title}>
      {children}
    </pre>
  </section>
)

/** One fact under its name. */
export const Fact = ({ children, name }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

/** An id to be copied; nothing where there is none. */
export const Id = ({ name, value }: { readonly name: string; readonly value: string | null }) =>
  value === null ? null : (
    <Fact name={name}>
      <code>{value}</code> <CopyButton label="Copy" what={`Copy: ${name}`} text={value} />
    </Fact>
  )
