import { existsSync, readFileSync, statSync } from "node:fs"
import { dirname, join, normalize } from "node:path"

/** The folder of the repository, whose Markdown is the site. */
export const root = join(import.meta.dirname, "../../..")

/** Where a file of the repository stands in the site, if it is a page of it. */
export const pageOf = (path: string): string | undefined => {
  if (path === "CONTRIBUTING.md") return "contributing.md"
  const example = /^examples\/([^/]+)\/README\.md$/.exec(path)?.[1]
  if (example !== undefined) return `examples/${example}.md`
  return /^docs\/(.+\.md)$/.exec(path)?.[1]?.replace(/(^|\/)README\.md$/, "$1index.md")
}

const isFile = (path: string) => existsSync(join(root, path)) && statSync(join(root, path)).isFile()

/**
 * Where a link of a file of the repository leads in the site: to a page, or to a file that is copied under `files/`. Links to other sites and within
 * the page stay as they are. A link that leads nowhere has no file behind it.
 */
export const linkOf = (from: string, link: string): { readonly href: string; readonly file?: string } => {
  if (/^([a-z]+:|#)/.test(link)) return { href: link }
  const [path = "", anchor] = link.split("#")
  const target = normalize(join(dirname(from), path)).replace(/\/$/, "")
  const file = [target, `${target}/README.md`].find(isFile)
  const page = file === undefined ? undefined : pageOf(file)
  if (page === undefined) return { href: `/files/${target}.txt`, ...(file !== undefined && { file: target }) }
  return { href: `/${page}${anchor === undefined ? "" : `#${anchor}`}` }
}

export interface Section {
  readonly title: string
  readonly entries: ReadonlyArray<{ readonly title: string; readonly path: string }>
}

const home = () => readFileSync(join(root, "docs/README.md"), "utf8")

/** What `docs/README.md` lists, by its headings: every page of the site but the decisions. */
export const sections = (): ReadonlyArray<Section> =>
  home()
    .split(/^## /m)
    .slice(1)
    .map((text) => ({
      title: text.split("\n")[0] ?? "",
      entries: Array.from(text.matchAll(/^- \[([^\]]+)\]\(([^)#]+)\)/gm), ([, title = "", path = ""]) => ({
        title: title.replaceAll("`", ""),
        path
      }))
    }))

/** The same list for programs that read: https://llmstxt.org. The site has every page as Markdown, too. */
export const llms = (): string =>
  home()
    .replace(/<picture>[^]*?<\/picture>\n\n/, "")
    .replace(
      /^(# .+\n\n)([^]+?)\n\n/,
      (_, title: string, text: string) => `${title}> ${text.replaceAll("\n", " ")}\n\n`
    )
    .replaceAll(/\]\(([^)]+)\)/g, (_, link: string) => `](/docs${linkOf("docs/README.md", link).href})`)
