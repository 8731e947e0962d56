import { Api } from "@bowline/protocol/api/Api"
import { Effect, Scope } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { HttpApiScalar } from "effect/http-api"
import { answer, Refused } from "../http/Refusals.ts"
import * as PageFiles from "./PageFiles.ts"

/** Without what sends its reader to the maker of the page. The types of the page know only some of its settings. */
const scalar = {
  withDefaultFonts: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
  customCss: 'a[href*="scalar.com"] { display: none }'
}

/** The page to read and try the API, wherever it is asked for. Nobody else is asked for its fonts. */
const apiPage = HttpApiScalar.layer(Api, { path: "/*", scalar })

const notBuilt = answer(
  Effect.fail(new Refused({ code: "not_found", detail: "The documentation is not built: `npm start` builds it" }))
)

/** What a path means: a file, or a page without its extension. */
const namesOf = (path: string) =>
  path.endsWith("/") ? [`${path}index.html`] : [path, `${path}.html`, `${path}/index.html`]

/**
 * The documentation under `/docs`, as `apps/docs` builds it, and the page of the API at `/docs/api`. That page is large, and the files are many:
 * the first request loads them, and the first one for a text compresses it. Where the documentation is not built, `/docs` is the page of the API.
 */
export const layer = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const scope = yield* Effect.scope
    const api = Effect.flatten(yield* Effect.cached(Scope.provide(HttpRouter.toHttpEffect(apiPage), scope)))
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
    yield* router.add("GET", "/docs/*", show)
  })
)
