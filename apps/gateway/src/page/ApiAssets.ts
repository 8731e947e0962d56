/** The style of the page of the API: the colours are those of the console. */
export const style = `:root {
  color-scheme: light dark;
  --text: light-dark(#1c2430, #e4e9f0);
  --dim: light-dark(#525d6d, #a5b1c2);
  --accent: light-dark(#1d5fb8, #8ab8f5);
  --page: light-dark(#f6f7f9, #12161c);
  --raised: light-dark(#ffffff, #1a2028);
  --line: light-dark(#d5dae1, #333c48);
  --strong: light-dark(#7b8696, #76839a);
}
* { box-sizing: border-box; }
body { margin: 0; font: 14px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
code, pre, textarea, nav span { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; }
header { display: flex; gap: 20px; padding: 10px 20px; border-bottom: 1px solid var(--line); background: var(--raised); }
.columns { display: grid; grid-template-columns: 300px minmax(0, 1fr); }
nav { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto; padding: 8px 20px; border-right: 1px solid var(--line); }
nav h2 { font-size: 13px; margin: 12px 0 4px; color: var(--dim); }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a { text-decoration: none; overflow-wrap: anywhere; }
nav a:hover { text-decoration: underline; }
main { padding: 8px 20px 60px; max-width: 1000px; }
h1 { font-size: 22px; }
h2 { font-size: 18px; }
h3 { font-size: 15px; margin: 0 0 6px; }
article { scroll-margin-top: 8px; margin: 12px 0; padding: 12px 16px; border: 1px solid var(--line); border-radius: 6px; background: var(--raised); }
article:target { border-color: var(--accent); }
p { margin: 6px 0; }
.wide { overflow-x: auto; margin: 8px 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 4px 8px 4px 0; text-align: start; vertical-align: top; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { color: var(--dim); font-size: 12px; }
summary { cursor: pointer; color: var(--accent); }
form { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: end; margin: 8px 0; }
label { display: grid; gap: 2px; color: var(--dim); }
label:has(textarea) { flex: 1 1 100%; }
input, textarea, button { font: inherit; color: var(--text); background: var(--page); border: 1px solid var(--strong); border-radius: 6px; padding: 4px 8px; }
pre { max-height: 400px; overflow: auto; white-space: pre-wrap; margin: 0; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 8px; top: 8px; background: var(--raised); padding: 8px; z-index: 1; }
@media (max-width: 800px) {
  .columns { display: block; }
  nav { position: static; max-height: 240px; border-right: 0; border-bottom: 1px solid var(--line); }
}
`

/** Sends what somebody tries, and shows the answer as it comes. The first 100,000 characters of it are enough to see what a route does. */
export const script = `const most = 100000
const reading = new WeakMap()
document.addEventListener("submit", async (event) => {
  event.preventDefault()
  const form = event.target
  const { method, path } = form.dataset
  if (method === undefined) return
  const out = form.parentElement.querySelector("pre")
  reading.get(form)?.abort()
  const leaving = new AbortController()
  reading.set(form, leaving)
  let url = path
  const query = new URLSearchParams()
  for (const field of form.querySelectorAll("input")) {
    if (field.dataset.in === "path") url = url.replace("{" + field.name + "}", encodeURIComponent(field.value))
    else if (field.value !== "") query.append(field.name, field.value)
  }
  const headers = { accept: "application/json, text/event-stream;q=0.9, */*;q=0.1" }
  const key = document.querySelector("#key").value
  if (key !== "") headers.authorization = "Bearer " + key
  const body = form.querySelector("textarea")?.value
  if (body !== undefined) headers["content-type"] = "application/json"
  out.textContent = "Sending…"
  try {
    const target = url + (query.size === 0 ? "" : "?" + query)
    const response = await fetch(target, { method, headers, body, signal: leaving.signal })
    let text = response.status + " " + response.statusText + "\\n\\n"
    out.textContent = text
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    while (reader !== undefined && text.length < most) {
      const { done, value } = await reader.read()
      if (done) {
        const [head, rest] = [text.slice(0, text.indexOf("\\n\\n")), text.slice(text.indexOf("\\n\\n") + 2)]
        if (/json/.test(response.headers.get("content-type") ?? "")) text = head + "\\n\\n" + JSON.stringify(JSON.parse(rest), null, 2)
        break
      }
      text += value
      out.textContent = text
    }
    if (text.length >= most) await reader.cancel()
    out.textContent = text
  } catch (error) {
    if (!leaving.signal.aborted) out.textContent = String(error)
  }
})
`
