import { Api } from "@bowline/protocol/api/Api"
import { OpenApi } from "effect/http-api"
import { type JsonSchema, propertiesOf, typeOf } from "./ApiTypes.ts"

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: JsonSchema
  readonly description?: string
}

type Content = Readonly<Record<string, { readonly schema?: JsonSchema }>>

interface Operation {
  readonly tags: ReadonlyArray<string>
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly parameters: ReadonlyArray<Parameter>
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly description?: string; readonly content?: Content }>>
}

interface Route extends Operation {
  readonly method: string
  readonly path: string
}

/** The part of the OpenAPI document that the page shows. */
interface Contract {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> }
}

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }
const escape = (text: string): string => text.replaceAll(/[&<>"]/g, (character) => escapes[character] ?? "")

/** A description: code stands between backticks. */
const prose = (text: string | undefined): string => escape(text ?? "").replaceAll(/`([^`]+)`/g, "<code>$1</code>")

const table = (label: string, head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  rows.length === 0
    ? ""
    : `<div class="wide" tabindex="0" role="region" aria-label="${escape(label)}"><table><thead><tr>${head
        .map((name) => `<th scope="col">${name}</th>`)
        .join("")}</tr></thead><tbody>${rows
        .map((cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`)
        .join("")}</tbody></table></div>`

/** A type in words; what has a name leads to it. */
const type = (schema: JsonSchema | undefined): string =>
  escape(typeOf(schema)).replaceAll(/#(\w+)/g, '<a href="#schema-$1">$1</a>')

const bodyOf = ({ requestBody }: Operation): JsonSchema | undefined => requestBody?.content["application/json"]?.schema

const idOf = ({ operationId }: Operation): string => `route-${operationId.replaceAll(/[^\w-]/g, "-")}`

/** What is sent for a route, in fields of their own; the body as JSON. */
const tryForm = (route: Route): string => {
  const { method, parameters, path } = route
  const fields = parameters
    .filter((one) => one.in === "path" || one.in === "query")
    .map(
      ({ in: place, name, required }) =>
        `<label>${escape(name)}<input name="${escape(name)}" data-in="${place}"${required === true ? " required" : ""}></label>`
    )
  const body =
    bodyOf(route) === undefined
      ? ""
      : `<label>Body<textarea name="body" rows="4" spellcheck="false">{}</textarea></label>`
  return `<details><summary>Try it<span class="unseen">: ${method} ${escape(path)}</span></summary>
<form data-method="${method}" data-path="${escape(path)}">${fields.join("")}${body}<button>Send</button></form>
<pre role="status" tabindex="0" aria-label="Answer of ${method} ${escape(path)}"></pre></details>`
}

const article = (route: Route): string => {
  const { description, method, parameters, path, responses, summary } = route
  const body = bodyOf(route)
  return `<article id="${idOf(route)}"><h3><code>${method} ${escape(path)}</code></h3>
<p>${prose(summary)}</p>${description === undefined ? "" : `<p>${prose(description)}</p>`}
${table(
  `Parameters of ${method} ${path}`,
  ["Parameter", "In", "Type", "Meaning"],
  parameters.map(({ in: place, name, required, schema, description: words }) => [
    `<code>${escape(name)}</code>`,
    place + (required === true ? ", required" : ""),
    type(schema),
    prose(words ?? (typeof schema.description === "string" ? schema.description : ""))
  ])
)}
${body === undefined ? "" : `<p>Body: ${type(body)}</p>`}
${table(
  `Answers of ${method} ${path}`,
  ["Status", "Meaning", "Body"],
  Object.entries(responses).map(([status, { content = {}, description: words }]) => [
    status,
    prose(words),
    Object.entries(content)
      .map(([name, { schema }]) => `${escape(name)}: ${type(schema)}`)
      .join("<br>")
  ])
)}
${tryForm(route)}</article>`
}

const schemaPart = ([name, schema]: readonly [string, JsonSchema]): string => {
  const properties = propertiesOf(schema)
  const rows = properties.map(({ name, required, schema }) => [
    `<code>${escape(name)}</code>`,
    type(schema) + (required ? "" : ", optional"),
    prose(typeof schema.description === "string" ? schema.description : "")
  ])
  return `<article id="schema-${escape(name)}"><h3>${escape(name)}</h3>
<p>${prose(typeof schema.description === "string" ? schema.description : "")}</p>${
    rows.length === 0 ? `<p>${type(schema)}</p>` : table(`Fields of ${name}`, ["Field", "Type", "Meaning"], rows)
  }</article>`
}

/** The page to read and try the API. Its style and its script are files of their own, as the policy of pages demands. */
export const render = (): string => {
  // The document is JSON of this shape; its library types it as any OpenAPI document.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const { components, paths } = JSON.parse(JSON.stringify(OpenApi.fromApi(Api))) as Contract
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Route => ({ ...operation, method: method.toUpperCase(), path }))
  )
  const groups = Map.groupBy(routes, ({ tags }) => tags[0] ?? "Other")
  const nav = Array.from(
    groups,
    ([tag, own]) =>
      `<h2>${escape(tag)}</h2><ul>${own
        .map((route) => `<li><a href="#${idOf(route)}"><span>${route.method}</span> ${escape(route.path)}</a></li>`)
        .join("")}</ul>`
  )
  const parts = Array.from(
    groups,
    ([tag, own]) => `<section><h2>${escape(tag)}</h2>${own.map(article).join("")}</section>`
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>API · Bowline</title><link rel="stylesheet" href="/docs/api.css"><script src="/docs/api.js" defer></script></head>
<body><a class="skip" href="#main">Skip to the page</a>
<header><strong>Bowline API</strong><a href="/">Console</a><a href="/docs">Docs</a><a href="/openapi.json">openapi.json</a></header>
<div class="columns"><nav aria-label="Routes">${nav.join("")}<h2><a href="#schemas">Types</a></h2></nav>
<main id="main" tabindex="-1"><h1>API</h1>
<p>Every error is an <code>application/problem+json</code>, and every answer has an <code>X-Request-Id</code>.
The <a href="/docs/reference/http">reference</a> explains what the routes mean.</p>
<form class="key"><label>Key for what is tried here<input id="key" type="password" autocomplete="off"></label>
<span>It stays in this page. Whoever is logged in to the console needs none.</span></form>
${parts.join("")}
<section id="schemas"><h2>Types</h2>${Object.entries(components.schemas).map(schemaPart).join("")}</section></main></div></body></html>`
}
