// Draws the two pictures of the README, each for light and for dark pages: `node .ci/pictures.mjs [folder]`. A test compares them with what is in docs/images.
import { writeFileSync } from "node:fs"
import { join } from "node:path"

const folder = process.argv[2] ?? join(import.meta.dirname, "../docs/images")

const themes = {
  light: {
    page: "#ffffff",
    panel: "#f6f8fa",
    line: "#8c959f",
    text: "#1f2328",
    soft: "#57606a",
    good: "#1a7f37",
    own: "#0550ae"
  },
  dark: {
    page: "#0d1117",
    panel: "#161b22",
    line: "#6e7681",
    text: "#e6edf3",
    soft: "#9198a1",
    good: "#3fb950",
    own: "#79c0ff"
  }
}

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
const sans = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
const mono = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"

const picture = (width, height, title, body, style = "") =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escape(title)}">
<title>${escape(title)}</title>${style === "" ? "" : `\n<style>${style}</style>`}
${body.join("\n")}
</svg>
`

/** Callers on the left, the gateway in the middle, what it asks on the right, and where it keeps everything below. */
const architecture = ({ good, line, own, page, panel, soft, text }) => {
  const label = (x, y, words, { anchor = "middle", fill = text, size = 15, weight = 400 } = {}) =>
    `<text x="${x}" y="${y}" font-family="${sans}" font-size="${size}" font-weight="${weight}" fill="${fill}" text-anchor="${anchor}">${escape(words)}</text>`
  const box = (x, y, width, height, stroke = line) =>
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="8" fill="${panel}" stroke="${stroke}" stroke-width="1.5"/>`
  const named = (x, y, width, name, detail, stroke) => [
    box(x, y, width, 54, stroke),
    label(x + width / 2, y + 23, name, { weight: 600 }),
    label(x + width / 2, y + 42, detail, { fill: soft, size: 12.5 })
  ]
  const arrow = (x1, y1, x2, y2) =>
    `<path d="M${x1} ${y1}L${x2} ${y2}" stroke="${line}" stroke-width="1.5" fill="none" marker-start="url(#tip)" marker-end="url(#tip)"/>`
  const left = [
    ["Your app", "HTTP, @bowline/client"],
    ["Chat pages", "useChat, AG-UI"],
    ["SDKs of OpenAI", "/v1"],
    ["A2A and MCP clients", "/a2a, /mcp"]
  ]
  const right = [
    ["Models", "OpenAI, Anthropic, your own"],
    ["Agents", "A2A 1.0, A2A 0.3, bindu"],
    ["MCP servers", "HTTP, commands"],
    ["Local tools", "functions of an Effect app"]
  ]
  const rows = (list, x, width, from, to) =>
    list.flatMap(([name, detail], index) => {
      const y = 24 + index * 74
      return [...named(x, y, width, name, detail), arrow(from, y + 27, to, y + 27)]
    })
  return picture(860, 426, "Callers ask the gateway; its planner asks models, agents and tools; everything is stored", [
    `<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0L8 4L0 8Z" fill="${line}"/></marker></defs>`,
    `<rect width="860" height="426" rx="10" fill="${page}"/>`,
    ...rows(left, 20, 190, 214, 306),
    ...rows(right, 640, 200, 554, 636),
    box(310, 24, 240, 276, own),
    label(430, 52, "Bowline", { size: 18, weight: 700 }),
    label(430, 73, "one replica, or many", { fill: soft, size: 12.5 }),
    ...named(330, 90, 200, "Stream", "stored, then sent; resumes", good),
    ...named(330, 158, 200, "Planner", "step by step, with a deadline", good),
    ...named(330, 226, 200, "Tool calls", "once, cancelled, approved", good),
    arrow(430, 304, 430, 346),
    ...named(290, 350, 280, "Postgres, or embedded", "sessions, plans, events, leases")
  ])
}

/** What `bowline ask` prints, and after how many seconds. */
const session = [
  [0.5, "text", '$ bowline ask --preset demo "Ask prompt and slow what a bowline is."'],
  [1.6, "soft", "plan_4ef76cee-cd3f-4477-be7c-8143abe1d53b"],
  [1.6, "soft", "in session session_69f4cff4-29c5-4ddf-ab2f-5410a200d514"],
  [2.2, "good", "✓ prompt_look_up completed (94ms)"],
  [4.4, "good", "✓ slow_research completed (2s)"],
  [4.8, "text", "Demo answer. A tool said: “Demo answer, given at once, to: Ask prompt and slow"],
  [5, "text", "what a bowline is.”. A tool said: “Demo report, made in two seconds, on: Ask"],
  [5.2, "text", "prompt and slow what a bowline is.”."],
  [7.0, "text", '$ bowline ask --preset demo "Ask stuck what a bowline is."'],
  [8.0, "soft", "⠴ 3s · stuck_deliberate · step 1 · calls 1"],
  [9.4, "text", "^C"],
  [9.6, "soft", "Cancelling the plan. Ctrl-C quits at once"],
  [10, "good", "Cancelled"]
]
const seconds = 14

/** Without animation all lines are there. */
const terminal = (colors) => {
  const { line, page, panel, soft } = colors
  const lines = session.map(([, color, words], index) => {
    const y = 66 + index * 24
    return `<text class="l${index}" x="24" y="${y}" font-family="${mono}" font-size="14" fill="${colors[color]}" xml:space="preserve">${escape(words)}</text>`
  })
  const rules = session.map(([at], index) => {
    const percent = ((at / seconds) * 100).toFixed(1)
    return `@keyframes k${index}{0%,${percent}%{opacity:0}${(Number(percent) + 0.5).toFixed(1)}%,97%{opacity:1}100%{opacity:0}}.l${index}{animation:k${index} ${seconds}s linear infinite}`
  })
  const height = 84 + session.length * 24
  return picture(
    760,
    height,
    "A terminal: two agents answer, and a third one that never does is cancelled",
    [
      `<rect x="1" y="1" width="758" height="${height - 2}" rx="10" fill="${page}" stroke="${line}"/>`,
      `<path d="M1 34h758" stroke="${line}"/>`,
      `<rect x="2" y="2" width="756" height="31" rx="9" fill="${panel}"/>`,
      ...[22, 42, 62].map((x) => `<circle cx="${x}" cy="18" r="5.5" fill="${soft}"/>`),
      ...lines
    ],
    `@media (prefers-reduced-motion:no-preference){${rules.join("")}}`
  )
}

for (const [name, colors] of Object.entries(themes)) {
  writeFileSync(join(folder, `architecture-${name}.svg`), architecture(colors))
  writeFileSync(join(folder, `terminal-${name}.svg`), terminal(colors))
}
