// Before the first paint: dark where the system is, and the keys of a Mac.
document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches)
document.documentElement.classList.toggle("mac", /Mac|iPhone|iPod|iPad/i.test(navigator.platform))
