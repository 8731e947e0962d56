import { Effect } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import * as Etag from "../http/Etag.ts"
import { answer, Refused } from "../http/Refusals.ts"
import * as ApiAssets from "./ApiAssets.ts"
import * as ApiPage from "./ApiPage.ts"
import * as PageFiles from "./PageFiles.ts"

const encoder = new TextEncoder()

const fileOf = (type: string, text: string): PageFiles.PageFile => {
  const bytes = encoder.encode(text)
  return { type: `${type}; charset=utf-8`, identity: { bytes, etag: Etag.of(bytes) } }
}

const notBuilt = answer(
  Effect.fail(new Refused({ code: "not_found", detail: "The documentation is not built: `npm start` builds it" }))
)

/** What a path means: a file, or a page without its extension. */
const namesOf = (path: string) =>
  path.endsWith("/") ? [`${path}index.html`] : [path, `${path}.html`, `${path}/index.html`]

/**
 * The documentation under `/docs`, as `apps/docs` builds it, and the page of the API at `/docs/api`. The files are many: the first request
 * loads them, and the first one for a text compresses it. Where the documentation is not built, `/docs` is the page of the API.
 */
export const layer = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const made = (type: string, text: () => string) =>
      Effect.map(Effect.cached(Effect.suspend(() => PageFiles.compress(fileOf(type, text())))), (file) =>
        Effect.map(Effect.all([HttpServerRequest.HttpServerRequest, file]), ([request, file]) =>
          PageFiles.respond(request, file, { status: 200, headers: PageFiles.ofPage })
        )
      )
    const api = yield* made("text/html", ApiPage.render)
    let files = new Map<string, PageFiles.PageFile>()
    const loaded = Effect.suspend(() =>
      files.size > 0 ? Effect.succeed(files) : Effect.map(PageFiles.read("docs"), (read) => (files = new Map(read)))
    )

    const show = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const files = yield* loaded
      const path = (request.url.split("?")[0] ?? "").slice("/docs".length) || "/"
      const name = namesOf(path).find((name) => files.has(name))
      const found = files.get(name ?? "/404.html")
      if (found !== undefined) {
        const file = yield* PageFiles.compress(found)
        files.set(name ?? "/404.html", file)
        const headers = path.startsWith("/assets/") && name !== undefined ? PageFiles.ofAsset : PageFiles.ofPage
        return PageFiles.respond(request, file, { status: name === undefined ? 404 : 200, headers })
      }
      return yield* path === "/" ? api : notBuilt
    })

    yield* router.add("GET", "/docs/api", api)
    yield* router.add("GET", "/docs/api.css", yield* made("text/css", () => ApiAssets.style))
    yield* router.add("GET", "/docs/api.js", yield* made("text/javascript", () => ApiAssets.script))
    yield* router.add("GET", "/docs/*", show)
  })
)
