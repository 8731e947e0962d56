import type { MarkedToken, Token, Tokens } from "marked"
import { Component, type ComponentChildren, type VNode } from "preact"
import { useMemo, useRef } from "preact/hooks"
import { extend, none } from "./Tokens.ts"

/** Where a link may lead: http and https only, whatever a model calls its address. */
export const safeHref = (href: string): string | undefined => {
  const url = URL.parse(href)
  return url !== null && (url.protocol === "https:" || url.protocol === "http:") ? url.href : undefined
}

const headings = ["h3", "h4", "h5", "h6", "h6", "h6"] as const

/** Tokens as nodes. */
export const nodesOf = (tokens: ReadonlyArray<Token> | undefined): ComponentChildren =>
  // No extension of the lexer makes other tokens.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  tokens?.map((token) => made(token as MarkedToken))

/** Whatever is not known here, HTML and images among it, is text as it came. */
const made = (token: MarkedToken): ComponentChildren => {
  switch (token.type) {
    case "space":
    case "def":
      return null
    case "paragraph":
      return <p>{nodesOf(token.tokens)}</p>
    case "heading": {
      const Heading = headings[token.depth - 1] ?? "h6"
      return <Heading>{nodesOf(token.tokens)}</Heading>
    }
    case "strong":
      return <strong>{nodesOf(token.tokens)}</strong>
    case "em":
      return <em>{nodesOf(token.tokens)}</em>
    case "del":
      return <del>{nodesOf(token.tokens)}</del>
    case "codespan":
      return <code>{token.text}</code>
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{token.text}</code>
        </pre>
      )
    case "br":
      return <br />
    case "hr":
      return <hr />
    case "blockquote":
      return <blockquote>{nodesOf(token.tokens)}</blockquote>
    case "list":
      return token.ordered ? (
        <ol start={Number(token.start)}>{token.items.map(item)}</ol>
      ) : (
        <ul>{token.items.map(item)}</ul>
      )
    case "table":
      return table(token)
    case "link":
      return link(token)
    case "escape":
      return token.text
    case "text":
      return token.tokens === undefined ? decode(token.text) : nodesOf(token.tokens)
    default:
      return token.raw
  }
}

// The lexer leaves entities as they are written; the five that matter are read here.
const entities: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" }
const decode = (text: string): string =>
  text.replaceAll(/&(?:amp|lt|gt|quot|#39);/g, (entity) => entities[entity] ?? entity)

const item = (token: Tokens.ListItem): VNode => (
  <li>
    {token.task ? (token.checked === true ? "[x] " : "[ ] ") : null}
    {nodesOf(token.tokens.filter(({ type }) => type !== "checkbox"))}
  </li>
)

const link = (token: Tokens.Link): ComponentChildren => {
  const href = safeHref(token.href)
  return href === undefined ? (
    token.raw
  ) : (
    <a href={href} rel="noopener noreferrer" target="_blank">
      {nodesOf(token.tokens)}
    </a>
  )
}

const table = ({ header, rows }: Tokens.Table): VNode => (
  <div class="scroll-x" tabIndex={0}>
    <table>
      <thead>
        <tr>
          {header.map(({ align, tokens }) => (
            <th scope="col" class={align === "right" ? "number" : undefined}>
              {nodesOf(tokens)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {row.map(({ align, tokens }) => (
              <td class={align === "right" ? "number" : undefined}>{nodesOf(tokens)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)

/** A block of a text. It is made anew only if it has changed: a text that grows changes its last ones. */
class Block extends Component<{ readonly token: Token }> {
  override shouldComponentUpdate({ token }: { readonly token: Token }): boolean {
    return token !== this.props.token
  }

  override render({ token }: { readonly token: Token }) {
    return <>{nodesOf([token])}</>
  }
}

/**
 * A text that a model wrote. It becomes nodes and never HTML: no images, and links to http and https only. One that is whole is read
 * anew, since its end may tell what its head means: so it looks the same to whoever opens it later.
 */
export const Markdown = ({ isWhole = true, text }: { readonly text: string; readonly isWhole?: boolean }) => {
  const grown = useRef(none)
  const whole = useMemo(() => (isWhole ? extend(none, text) : undefined), [isWhole, text])
  const blocks = whole ?? (grown.current = extend(grown.current, text))
  return (
    <div class="prose">
      {blocks.tokens.map((token, index) => (
        <Block key={index} token={token} />
      ))}
    </div>
  )
}
