import theme from "vitepress/theme-without-fonts"
import "./page.css"

export default theme
