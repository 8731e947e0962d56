import { HttpServerResponse } from "effect/http"
import type { Link, ShownAccount } from "../http/ConnectedAccounts.ts"

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (one) => `&#${String(one.codePointAt(0))};`)

const page = (title: string, body: string, formsTo: string) =>
  HttpServerResponse.text(
    `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
</head>
<body>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`,
    {
      contentType: "text/html; charset=utf-8",
      headers: {
        "cache-control": "no-store",
        "content-security-policy": `default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action ${formsTo}`,
        // With `no-referrer` a browser sends the form with `Origin: null`, which is refused. Nobody else gets the link of the page.
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff"
      }
    }
  )

/** Asks a person whether a caller's plan may act as the person at an account. */
export const confirmation = (
  { account, caller, found, host, plan_id, scopes, tool }: Link & ShownAccount,
  link: string
) => {
  const rights =
    scopes.length === 0
      ? `<p>The gateway asks for no particular rights: ${escaped(host)} says which it gives.</p>`
      : `<p>The gateway asks for these rights:</p>\n<ul>\n${scopes.map((scope) => `<li><code>${escaped(scope)}</code></li>`).join("\n")}\n</ul>`
  return page(
    `Let ${escaped(caller)} act as you at ${escaped(account)}?`,
    `<p>The plan <code>${plan_id}</code> of the caller <strong>${escaped(caller)}</strong> waits for the account
<strong>${escaped(account)}</strong>, which <strong>${escaped(tool)}</strong> needs. If you go on, you log in at
<strong>${escaped(host)}</strong>. From then on this and later plans of <strong>${escaped(caller)}</strong> act there as you,
until you take it back.</p>
${found === undefined ? "" : `<p>Nobody has configured this account: the server at <strong>${escaped(account)}</strong> wants it, and has named <strong>${escaped(found.issuer)}</strong>. What you grant goes to that server only.</p>\n`}${rights}
<p>Go on only if you are <strong>${escaped(caller)}</strong>, and have asked for this. Else close this page: nothing has happened.</p>
<form method="post" action="/accounts/connect?link=${encodeURIComponent(link)}"><button>Go on to ${escaped(host)}</button></form>`,
    // The answer to the form sends the browser on to a place that the operator or a server has named.
    "'self' https: http:"
  )
}

/** Says that a plan goes on. */
export const connected = ({ account, caller }: Link) =>
  page(
    `${escaped(account)} is connected`,
    `<p>The plans of <strong>${escaped(caller)}</strong> act there as you from now on. The plan that has waited goes on. You can close this page.</p>`,
    "'none'"
  )
