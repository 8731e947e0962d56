import { useSignalEffect } from "@preact/signals"
import { useEffect, useRef } from "preact/hooks"
import { pendingCount } from "./approval/Pending.ts"
import { AskPage } from "./ask/AskPage.tsx"
import { config, isAdmin } from "./gateway/Config.ts"
import { logOut, signedOut } from "./gateway/Gateway.ts"
import { PlansPage } from "./list/PlansPage.tsx"
import { here, route, subject } from "./route/Location.ts"
import type { Route } from "./route/Route.ts"
import { later } from "./shell/Later.tsx"
import { firstLine, shortId } from "./text/Format.ts"
import { Login } from "./shell/Login.tsx"

const AccountsPage = later(async () => (await import("./operator/AccountsPage.tsx")).AccountsPage)
const CredentialsPage = later(async () => (await import("./operator/CredentialsPage.tsx")).CredentialsPage)
const OverviewPage = later(async () => (await import("./overview/OverviewPage.tsx")).OverviewPage)
const PeersPage = later(async () => (await import("./operator/PeersPage.tsx")).PeersPage)
const PlanPage = later(async () => (await import("./plan/PlanPage.tsx")).PlanPage)
const SchedulePage = later(async () => (await import("./schedule/SchedulePage.tsx")).SchedulePage)
const SchedulesPage = later(async () => (await import("./schedule/SchedulesPage.tsx")).SchedulesPage)
const SessionPage = later(async () => (await import("./session/SessionPage.tsx")).SessionPage)
const SessionsPage = later(async () => (await import("./session/SessionsPage.tsx")).SessionsPage)
const UsagePage = later(async () => (await import("./overview/UsagePage.tsx")).UsagePage)
const WaitingPage = later(async () => (await import("./approval/WaitingPage.tsx")).WaitingPage)

const links = [
  { page: "ask", href: "/", label: "Ask" },
  { page: "overview", href: "/overview", label: "Overview" },
  { page: "plans", href: "/plans", label: "Plans" },
  { page: "sessions", href: "/sessions", label: "Sessions" },
  { page: "schedules", href: "/schedules", label: "Schedules" },
  { page: "waiting", href: "/waiting", label: "Waiting" },
  { page: "peers", href: "/peers", label: "Peers", admin: true },
  { page: "credentials", href: "/credentials", label: "Credentials", admin: true }
] as const

const sections: Readonly<Record<string, string>> = {
  plan: "plans",
  session: "sessions",
  schedule: "schedules",
  accounts: "waiting",
  approvals: "waiting",
  usage: "overview"
}

const titleOf = (shown: Route): string => {
  if (subject.value !== "") return firstLine(subject.value, 60)
  if ("id" in shown)
    return `${{ plan: "Plan", session: "Session", schedule: "Schedule" }[shown.page]} ${shortId(shown.id)}`
  if (shown.page === "approvals") return "Approvals"
  if (shown.page === "usage") return "Usage"
  if (shown.page === "accounts") return "Accounts"
  return links.find(({ page }) => page === shown.page)?.label ?? "No such page"
}

const Page = ({ shown }: { readonly shown: Route }) => {
  switch (shown.page) {
    case "ask":
      return <AskPage />
    case "overview":
      return <OverviewPage />
    case "usage":
      return <UsagePage />
    case "plans":
      return <PlansPage />
    case "plan":
      return <PlanPage key={shown.id} id={shown.id} />
    case "sessions":
      return <SessionsPage />
    case "session":
      return <SessionPage key={shown.id} id={shown.id} />
    case "schedules":
      return <SchedulesPage />
    case "schedule":
      return <SchedulePage key={shown.id} id={shown.id} />
    case "waiting":
      return <WaitingPage key="waiting" kind={null} />
    case "approvals":
      return <WaitingPage key="approvals" kind="approval" />
    case "accounts":
      return <AccountsPage />
    case "peers":
      return <PeersPage />
    case "credentials":
      return <CredentialsPage />
    case "unknown":
      return (
        <>
          <h1>There is no such page</h1>
          <p>
            The console has no page at <code>{here.value.path}</code>. <a href="/">Ask a question</a>, or look at the{" "}
            <a href="/plans">plans</a>.
          </p>
        </>
      )
  }
}

const Badge = () =>
  pendingCount.value === "0" ? null : (
    <span class="badge">
      {pendingCount}
      <span class="unseen"> {pendingCount.value === "1" ? "call" : "calls"}</span>
    </span>
  )

const Navigation = () => {
  const { page } = route.value
  const nav = useRef<HTMLElement>(null)
  // On a phone the pages are a line that scrolls.
  useEffect(() => {
    const current = nav.current?.querySelector<HTMLElement>("[aria-current]")
    if (current != null) nav.current?.scrollTo(current.offsetLeft - nav.current.offsetLeft - current.offsetWidth, 0)
  }, [page, isAdmin.value])
  return (
    <header class="bar">
      <a class="brand" href="/">
        Bowline
      </a>
      <nav ref={nav} aria-label="Pages">
        <ul>
          {links
            .filter((link) => !("admin" in link) || isAdmin.value)
            .map((link) => (
              <li key={link.page}>
                <a href={link.href} aria-current={(sections[page] ?? page) === link.page ? "page" : undefined}>
                  {link.label}
                  {link.page === "waiting" ? <Badge /> : null}
                </a>
              </li>
            ))}
        </ul>
      </nav>
      <Who />
      <a class="docs" href="/docs">
        Docs
      </a>
    </header>
  )
}

/** Who is logged in. A gateway without keys knows nobody, and has nothing to log out of. */
const Who = () => {
  const caller = config.value?.caller
  return caller === undefined || caller === "anonymous" ? null : (
    <div class="who">
      <span title="Logged in as">{caller}</span>
      <button type="button" class="quiet" onClick={() => void logOut()}>
        Log out
      </button>
    </div>
  )
}

/** The page around all pages. */
export const Console = () => {
  const main = useRef<HTMLElement>(null)
  const path = here.value.path

  useSignalEffect(() => {
    const count = pendingCount.value === "0" ? "" : `(${pendingCount.value}) `
    document.title = `${count}${titleOf(route.value)} · Bowline`
  })

  // A new page is read from its top, by a keyboard and a screen reader, too.
  const isFirst = useRef(true)
  useEffect(() => {
    if (!isFirst.current) main.current?.focus({ preventScroll: true })
    isFirst.current = false
  }, [path])

  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <Navigation />
      <main id="main" ref={main} tabIndex={-1}>
        <Page shown={route.value} />
      </main>
      {signedOut.value ? <Login /> : null}
    </>
  )
}
