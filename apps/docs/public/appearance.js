// Before the first paint: dark if the reader or else the system wants it, and the keys of a Mac.
const chosen = localStorage.getItem("vitepress-theme-appearance") ?? "auto"
const isDark = chosen === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark"
document.documentElement.classList.toggle("dark", isDark)
document.documentElement.classList.toggle("mac", /Mac|iPhone|iPod|iPad/i.test(navigator.platform))
