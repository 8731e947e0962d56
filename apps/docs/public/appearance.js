// Before the first paint: dark while the system is, and the keys of a Mac.
const system = matchMedia("(prefers-color-scheme: dark)")
const follow = () => document.documentElement.classList.toggle("dark", system.matches)
follow()
system.addEventListener("change", follow)
document.documentElement.classList.toggle("mac", /Mac|iPhone|iPod|iPad/i.test(navigator.platform))
