import { copyFileSync, mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { createCssVariablesTheme } from "shiki"
import { defineConfig } from "vitepress"
import type { Plugin } from "vite"
import { linkOf, llms, pageOf, root, sections } from "../src/Pages.ts"

/** Files that are no pages, and that pages link to. */
const files = new Set<string>()

/** The gateway's policy allows no styles in the markup: a token of code names its class. */
const className = (style: unknown) => /--shiki-([\w-]+)/.exec(String(style))?.[1]

/** The pages stand outside of this package, whose dependency Vue is. */
const vueOfThisPackage: Plugin = {
  name: "vue-of-this-package",
  enforce: "pre",
  resolveId(source) {
    return /^vue(\/|$)/.test(source) ? this.resolve(source, import.meta.filename, { skipSelf: true }) : undefined
  }
}

const components = new Map<string, string>()

/** What the styles of a component know it by. No two may have the same. */
const shortId = (path: string, _: string, __: boolean | undefined, getHash: (text: string) => string): string => {
  // A page has no styles of its own.
  if (!path.endsWith(".vue")) return getHash(path)
  const id = getHash(path).slice(0, 4)
  const other = components.get(id) ?? path
  if (other !== path) throw new Error(`${path} and ${other} have the same id: take a digit more`)
  components.set(id, path)
  return id
}

const sidebar = sections().map(({ entries, title }) => ({
  text: title,
  collapsed: false,
  items: entries.map(({ path, title }) => ({ text: title, link: linkOf("docs/README.md", path).href }))
}))

export default defineConfig({
  title: "Bowline",
  description: "An agent gateway that never gets stuck",
  base: "/docs/",
  srcDir: root,
  srcExclude: ["!(CONTRIBUTING).md", ".*/**", "packages/**", "apps/**", "charts/**", "examples/*/*/**"],
  outDir: "../gateway/docs",
  cacheDir: "../../node_modules/.vitepress",
  rewrites: (path) => pageOf(path) ?? path,
  cleanUrls: true,
  // Without it a switch would put a style into the markup.
  appearance: { disableTransition: false },
  head: [
    ["link", { rel: "icon", href: "/docs/icon.svg" }],
    ["script", { src: "/docs/appearance.js" }]
  ],
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [],
    // Each page repeats its list: beside more than a hundred decisions stands only the section that they belong to.
    sidebar: { "/decisions/": sidebar.filter(({ text }) => text === "Background"), "/": sidebar }
  },
  // Each page has hundreds of them, and the package of the gateway each page.
  vue: { features: { componentIdGenerator: shortId } },
  markdown: {
    theme: createCssVariablesTheme(),
    // The pages are plain Markdown, as other readers know it.
    attrs: false,
    container: false,
    emoji: false,
    include: false,
    snippet: false,
    toc: false,
    codeTransformers: [
      {
        span(node) {
          const name = className(node.properties["style"])
          delete node.properties["style"]
          if (name !== undefined) this.addClassToHast(node, name)
        },
        pre(node) {
          delete node.properties["style"]
        }
      }
    ],
    config: (md) => {
      // A tag at the start of a line does not end a paragraph: it may stand in code that goes over two lines.
      md.block.ruler.disable("html_block")
      md.core.ruler.push("links", ({ env, tokens }) => {
        const { path, realPath } = env as { readonly path: string; readonly realPath?: string }
        const from = (realPath ?? path).slice(root.length + 1)
        for (const token of tokens) {
          for (const child of token.children ?? []) {
            if (child.type === "html_inline") child.content = child.content.replace(/(?<=src(set)?=")(?=[a-z])/, "./")
            if (child.type !== "link_open") continue
            const { file, href } = linkOf(from, String(child.attrGet("href")))
            if (file !== undefined) files.add(file)
            child.attrSet("href", href)
          }
        }
      })
    }
  },
  vite: {
    publicDir: join(import.meta.dirname, "../public"),
    build: { assetsInlineLimit: 0 },
    plugins: [vueOfThisPackage]
  },
  // Scripts and styles in the markup are against the policy: `public/appearance.js` and `theme/page.css` have them.
  transformHtml: (html) => html.replaceAll(/<script id="check-[^]*?<\/script>|(?<=<[^>]*) style="[^"]*"/g, ""),
  buildEnd: ({ outDir, pages }) => {
    for (const file of files) {
      const copy = join(outDir, "files", `${file}.txt`)
      mkdirSync(dirname(copy), { recursive: true })
      copyFileSync(join(root, file), copy)
    }
    for (const page of pages) copyFileSync(join(root, page), join(outDir, pageOf(page) ?? page))
    writeFileSync(join(outDir, "llms.txt"), llms())
  }
})
