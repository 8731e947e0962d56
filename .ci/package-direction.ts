// What a package may import and how it is laid out: prints every breach, and ends with 1 if there is one.
import { existsSync, globSync, readFileSync } from "node:fs"
import { basename, dirname, join, normalize } from "node:path"
import { parseSync, Visitor, type ESTree } from "vite"

interface Manifest {
  readonly name: string
  readonly exports?: Record<string, string | null>
  readonly dependencies?: Record<string, string>
  readonly devDependencies?: Record<string, string>
  readonly peerDependencies?: Record<string, string>
  readonly optionalDependencies?: Record<string, string>
  readonly engines?: { readonly node?: string }
  readonly private?: boolean
  readonly publishConfig?: { readonly exports?: Record<string, Published> }
}

/** An entry as it is published: compiled, with its declarations first. */
interface Published {
  readonly types: string
  readonly default: string
}

// domain ← protocol, runtime ← adapters ← apps; an adapter never imports another one.
const mayImport: Record<string, ReadonlyArray<string>> = {
  domain: [],
  protocol: ["domain"],
  runtime: ["domain"],
  "provider-openai": ["domain", "runtime"],
  "provider-anthropic": ["domain", "runtime"],
  a2a: ["domain", "runtime"],
  mcp: ["domain", "runtime"],
  "storage-sql": ["domain", "runtime"],
  // Only its tests import it, and it runs the adapters.
  testing: ["domain", "client", "runtime", "a2a", "mcp", "provider-openai", "provider-anthropic", "storage-sql"],
  client: []
}

/** What only the tests of a package may import besides `testing`: the client is compared with the schemas of the API. */
const testsMayImport: Record<string, ReadonlyArray<string>> = { client: ["domain", "protocol"] }

/** The folders of a package, or of a room of it, from the ground up: a folder imports itself and those before it. */
const rooms: Record<string, ReadonlyArray<string>> = {
  "packages/runtime": [
    "process",
    "remote",
    "egress",
    "store",
    "tool",
    "provider",
    "config",
    "prompt",
    "http",
    "auth",
    "memory",
    "file",
    "telemetry",
    "record",
    "asking",
    "lock",
    "stream",
    "compaction",
    "planner",
    "plan",
    "schedule",
    "Embedding.ts"
  ],
  "apps/gateway": [
    "config",
    "bucket",
    "telemetry",
    "worker",
    "egress",
    "http",
    "push",
    "edge",
    "page",
    "route",
    "demo",
    "Gateway.ts",
    "cli",
    "main.ts"
  ],
  // What stands in the room itself comes last: it imports all of its folders.
  "apps/gateway/src/config": ["setting", "file"],
  "apps/gateway/src/edge": ["question", "leg", "openai", "response", "ui", "mcp", "a2a"],
  "apps/console": [
    "text",
    "route",
    "gateway",
    "shell",
    "file",
    "call",
    "live",
    "detail",
    "approval",
    "plan",
    "list",
    "overview",
    "operator",
    "session",
    "schedule",
    "ask",
    "Console.tsx",
    "main.tsx"
  ],
  "packages/a2a": ["task", "identity", "dialect", "rpc", "card", "peer", "server"],
  "packages/mcp": ["http", "process", "server"],
  "packages/testing": [
    "exchange",
    "file",
    "http",
    "provider",
    "peer",
    "planner",
    "mcp",
    "session",
    "store",
    "simulation",
    "replay",
    "evaluate",
    "DemoProcess.ts",
    "GatewayProcess.ts",
    "TestKit.ts"
  ],
  "packages/testing/src/simulation": ["scenario", "process", "world", "replica", "course", "check"],
  "packages/storage-sql": [
    "internal",
    "notice",
    "embedded",
    "migration",
    "caller",
    "peer",
    "provider",
    "file",
    "session",
    "plan",
    "schedule",
    "SqlStore.ts",
    "SqlPlans.ts"
  ]
}

/** Where a graph is wired. Anywhere else `Effect.provide` hides what a piece of code requires. */
const isWiring = (file: string): boolean =>
  ["apps/gateway/src/Gateway.ts", "packages/testing/src/TestKit.ts"].includes(file) ||
  /^(examples|apps\/bench)\//.test(file) ||
  isTest(file)

const isTest = (file: string): boolean => /^[^/]+\/[^/]+\/test\//.test(file)

const vagueNames = /^(utils?|helpers?|common|shared|lib|services?|layers?|types?)$/i
const vagueFiles = /^(I[A-Z][a-z]|Base[A-Z])|(Impl|Live|Manager)\.tsx?$/

const breaches: Array<string> = []
const long: Array<string> = []
const report = (file: string, message: string) => void breaches.push(`${file}: ${message}`)

const ownFolder = (file: string): string => file.split("/").slice(0, 2).join("/")
const readManifest = (path: string): Manifest => JSON.parse(readFileSync(path, "utf8")) as Manifest

const manifests = globSync("{packages,apps,examples}/*/package.json").map((path) => ({
  path,
  folder: dirname(path),
  manifest: readManifest(path)
}))
const ours = new Map(manifests.map(({ folder, manifest }) => [manifest.name, folder]))

/** Says why one folder of the workspace must not import another one, if so. */
const forbids = (from: string, to: string, inTest: boolean, file: string): string | undefined => {
  if (!to.startsWith("packages/")) return `imports ${to}, which is not a package`
  // They load it when somebody asks for a replay or an evaluation, and say what to install where it is not there.
  const isLoaded = /\/(Replay|Eval)Command\.ts$/.test(file)
  if (from === "apps/gateway" && to === "packages/testing" && !inTest && !isLoaded) {
    return "imports testing, which nobody installs in production"
  }
  if (!from.startsWith("packages/")) return undefined
  const target = basename(to)
  if (inTest && (target === "testing" || testsMayImport[basename(from)]?.includes(target))) return undefined
  const allowed = mayImport[basename(from)]
  if (allowed === undefined) return `has no place in the direction of packages: add it to .ci/package-direction.ts`
  return allowed.includes(target) ? undefined : `imports ${target}, against the direction of packages`
}

const published = (source: string): Published => {
  const compiled = source.replace("./src/", "./dist/")
  return { types: compiled.replace(/\.ts$/, ".d.ts"), default: compiled.replace(/\.ts$/, ".js") }
}

/** Two copies of these break services: the app has the one that all packages use. */
const isPeer = (name: string): boolean => name === "effect" || name.startsWith("@effect/")

const checkPublished = ({ path, folder, manifest }: (typeof manifests)[number]) => {
  if (manifest.private === true) return
  const { dependencies = {}, exports = {}, peerDependencies = {}, publishConfig } = manifest
  const wanted = Object.entries(exports).map(([key, source]) => [key, published(String(source))])
  if (JSON.stringify(Object.entries(publishConfig?.exports ?? {})) !== JSON.stringify(wanted)) {
    report(path, `must publish ${JSON.stringify(Object.fromEntries(wanted))}`)
  }
  for (const [name, range] of Object.entries(peerDependencies)) {
    if (!/^\^\d/.test(range)) report(path, `has the peer ${name} ${range}, not a range of versions`)
    else if (manifest.devDependencies?.[name] !== (ours.has(name) ? "workspace:*" : "catalog:")) {
      report(path, `has the peer ${name}, but tests without it`)
    }
  }
  if (!folder.startsWith("packages/")) return
  for (const name of Object.keys(dependencies).filter(isPeer)) report(path, `depends on ${name}: it must be a peer`)
}

const checkManifest = ({ path, folder, manifest }: (typeof manifests)[number]) => {
  for (const [key, target] of Object.entries(manifest.exports ?? {})) {
    if (target === null) continue
    if (key.includes("*") || target.includes("*")) report(path, `exports ${key} with a wildcard`)
    else if (!existsSync(join(folder, target))) report(path, `exports ${key}, but ${target} does not exist`)
    if (target.includes("/internal/")) report(path, `exports ${key}, which is internal`)
  }
  if (folder.startsWith("packages/") && manifest.engines?.node !== ">=22.19") {
    report(path, `has no engines.node of ">=22.19"`)
  }
  checkPublished({ path, folder, manifest })
  const { dependencies, devDependencies, optionalDependencies } = manifest
  for (const [kind, inTest] of [
    [{ ...dependencies, ...optionalDependencies }, false],
    [devDependencies ?? {}, true]
  ] as const) {
    for (const [name, version] of Object.entries(kind)) {
      const target = ours.get(name)
      const expected = target === undefined ? "catalog:" : "workspace:*"
      if (version !== expected) report(path, `depends on ${name} ${version}, not ${expected}`)
      const refusal = target === undefined ? undefined : forbids(folder, target, inTest, path)
      if (refusal !== undefined) report(path, refusal)
    }
  }
}

const checkNames = (file: string) => {
  const names = file.split("/").slice(2)
  for (const name of names) {
    if (vagueNames.test(name.replace(/\.tsx?$/, ""))) report(file, `\`${name}\` says nothing about the domain`)
  }
  const name = basename(file)
  if (!/^[^/]+\/[^/]+\/src\//.test(file) || names.includes("internal") || /^main\.tsx?$/.test(name)) return
  if (!/^[A-Z][A-Za-z0-9]*\.tsx?$/.test(name)) report(file, "is not named in PascalCase after its main export")
  if (vagueFiles.test(name)) report(file, "is named after what it is in code, not after what it does")
}

/** The place of a file in an order of folders: a file beside the folders of a room comes after all of them. */
const placeIn = (order: ReadonlyArray<string>, folder: string, file: string): number => {
  const [name = "", ...deeper] = file.slice(folder.length + 1).split("/")
  const place = order.indexOf(name)
  return place === -1 && deeper.length === 0 && folder in rooms ? order.length : place
}

const checkRoom = (file: string, target: string) => {
  if (isTest(file)) return
  for (const [room, order] of Object.entries(rooms)) {
    const folder = room.includes("/src/") ? room : `${room}/src`
    if (![file, target].every((one) => one.startsWith(`${folder}/`))) continue
    const [own, other] = [placeIn(order, folder, file), placeIn(order, folder, target)]
    for (const [one, place] of [
      [file, own],
      [target, other]
    ] as const) {
      if (place === -1 && /\.tsx?$/.test(one))
        report(one, "has no place in the order of folders: add it to .ci/package-direction.ts")
    }
    if (own === -1 || other === -1) continue
    if (other > own) report(file, `imports ${target}, against the order of the folders of ${room}`)
  }
}

const checkImport = (file: string, specifier: string) => {
  const folder = ownFolder(file)
  if (specifier.startsWith(".")) {
    const target = normalize(join(dirname(file), specifier))
    if (!target.startsWith(`${folder}/`)) report(file, `${specifier} leaves the package`)
    else if (!isTest(file) && isTest(target)) report(file, `${specifier} is a test`)
    else checkRoom(file, target)
    return
  }
  const [scope = "", name = "", ...rest] = specifier.split("/")
  const target = ours.get(`${scope}/${name}`)
  if (target === undefined) return
  if (rest.includes("internal")) report(file, `${specifier} is internal to ${target}`)
  if (target === folder) report(file, `${specifier} is this package: import it by its path`)
  const refusal = target === folder ? undefined : forbids(folder, target, isTest(file), file)
  if (refusal !== undefined) report(file, `${refusal} (${specifier})`)
}

const isLiteral = (node: ESTree.Node): node is ESTree.StringLiteral =>
  node.type === "Literal" && typeof node.value === "string"

const checkCode = (file: string, program: ESTree.Program) => {
  const mayProvide = isWiring(file)
  const mayReadEnvironment = !/^(packages\/[^/]+|apps\/gateway)\/src\//.test(file) || file.endsWith("Config.ts")
  const checkSource = (source: ESTree.Node | null) => {
    if (source !== null && isLiteral(source)) checkImport(file, source.value)
  }
  const checkMember = (owner: string, member: string) => {
    if (owner === "Effect" && member === "provide" && !mayProvide) {
      report(file, "uses Effect.provide outside the files that wire a graph")
    }
    if (owner === "process" && member === "env" && !mayReadEnvironment) {
      report(file, "reads process.env outside a `<Concept>Config.ts`")
    }
  }
  new Visitor({
    ImportDeclaration(node) {
      checkSource(node.source)
      const owner = { "effect/Effect": "Effect", "node:process": "process" }[node.source.value]
      for (const one of node.specifiers) {
        if (owner === undefined || one.type !== "ImportSpecifier") continue
        checkMember(owner, one.imported.type === "Identifier" ? one.imported.name : one.imported.value)
      }
    },
    ImportExpression: (node) => checkSource(node.source),
    TSImportType: (node) => checkSource(node.source),
    ExportAllDeclaration: (node) => checkSource(node.source),
    ExportNamedDeclaration: (node) => checkSource(node.source),
    MemberExpression(node) {
      if (node.object.type !== "Identifier") return
      if (node.property.type === "Identifier" && !node.computed) checkMember(node.object.name, node.property.name)
      else if (isLiteral(node.property)) checkMember(node.object.name, node.property.value)
    }
  }).visit(program)
}

const checkLength = (file: string, text: string, comments: ReadonlyArray<{ start: number; end: number }>) => {
  let code = text
  for (const { start, end } of comments) {
    code = code.slice(0, start) + code.slice(start, end).replace(/[^\n]/g, " ") + code.slice(end)
  }
  const lines = code.split("\n").filter((line) => line.trim() !== "").length
  if (lines > 400) report(file, `has ${lines} lines of code: 400 is the limit`)
  else if (lines > 300) long.push(`${file}: ${lines} lines of code`)
}

/** Names that several files have: each time for the same subject. */
const sharedNames = new Set(["Gateway", "Inbox", "NewestFirst", "Parking"])

/** Two unrelated files never share a name. A component is called as what it shows. */
const checkShared = (sources: ReadonlyArray<string>) => {
  const byName = Map.groupBy(sources, (file) => basename(file, ".ts"))
  for (const [name, [first, ...others]] of byName) {
    if (name === "main" || sharedNames.has(name)) continue
    for (const file of others) report(file, `shares its name with ${first}`)
  }
}

/** The rooms that the overview tells newcomers about. */
const told = ["packages/runtime", "apps/gateway", "apps/gateway/src/edge", "apps/console"]

const checkOverview = () => {
  const path = "docs/architecture/overview.md"
  const overview = readFileSync(path, "utf8")
  for (const folder of told.flatMap((room) => rooms[room] ?? [])) {
    if (!folder.includes(".") && !overview.includes(`\`${folder}\``))
      report(path, `does not tell of the folder ${folder}`)
  }
}

for (const one of manifests) checkManifest(one)
checkOverview()

const files = globSync("{packages,apps,examples}/*/{src,test}/**/*.{ts,tsx}").sort()
checkShared(files.filter((file) => /^[^/]+\/[^/]+\/src\/.*\.ts$/.test(file)))
for (const file of files) {
  const text = readFileSync(file, "utf8")
  const { program, comments, errors } = parseSync(file, text)
  if (errors.length > 0) report(file, "cannot be parsed")
  checkNames(file)
  checkCode(file, program)
  checkLength(file, text, comments)
}

if (long.length > 0) console.log(`Long:\n${long.join("\n")}`)
if (breaches.length > 0) console.log([...new Set(breaches)].join("\n"))
console.log(`${files.length} files in ${manifests.length} packages, ${new Set(breaches).size} breaches`)
process.exitCode = breaches.length > 0 ? 1 : 0
