import { h } from "vue"
import type { DefaultTheme, SiteData } from "vitepress"
import theme from "vitepress/theme-without-fonts"
import "./page.css"

/** Whoever searches wants to do something: why it was built so comes last. The ids are URLs. */
const rankOf = (id: string): number => (/\/(start|reference)\//.test(id) ? 3 : /\/decisions\//.test(id) ? 0.2 : 1)

/** Where else the gateway explains itself. Both are outside of the site. */
const ways = () => [
  h("a", { class: "way", href: "/", target: "_self" }, "Console"),
  h("a", { class: "way", href: "/docs/api", target: "_self" }, "API")
]

/** A function in the configuration would come as a text that the page evaluates, which the gateway's policy forbids. */
const rank = ({ siteData }: { readonly siteData: { value: SiteData<DefaultTheme.Config> } }) => {
  const { themeConfig } = siteData.value
  const options = { miniSearch: { searchOptions: { boostDocument: rankOf } } }
  siteData.value = { ...siteData.value, themeConfig: { ...themeConfig, search: { provider: "local", options } } }
}

export default {
  extends: theme,
  Layout: () => h(theme.Layout, null, { "nav-bar-content-after": ways }),
  enhanceApp: rank
}
