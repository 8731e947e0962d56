import { createHash } from "node:crypto"
import { once } from "node:events"
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { createServer } from "node:http"
import { join, relative, sep } from "node:path"
import { buffer } from "node:stream/consumers"
import { gzipSync } from "node:zlib"
import { pack } from "tar-stream"
import { root } from "../setup.mjs"
import { readJson } from "./workspace.mjs"

const store = join(root, "node_modules", ".pnpm")

/** The folders of all versions of a package that are installed in this checkout. */
const installed = (name) =>
  readdirSync(store)
    .filter((entry) => entry.startsWith(`${name.replace("/", "+")}@`))
    .map((entry) => join(store, entry, "node_modules", name))
    .filter((folder) => existsSync(join(folder, "package.json")))

/** The folder as a registry has it. The `tar` of a system would link files of the same content, as pnpm does, and npm drops links. */
const archive = async (folder) => {
  const tar = pack()
  const content = buffer(tar)
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const name = relative(folder, path).replaceAll(sep, "/")
    if (!entry.isFile() || name.startsWith("node_modules/")) continue
    tar.entry({ name: `package/${name}`, mode: statSync(path).mode }, readFileSync(path))
  }
  tar.finalize()
  // Nobody keeps it: to compress it would cost more than to send it.
  return gzipSync(await content, { level: 0 })
}

const versionsOf = (name) =>
  Promise.all(
    installed(name).map(async (folder) => ({
      manifest: readJson(join(folder, "package.json")),
      content: await archive(folder)
    }))
  )

const digest = (algorithm, encoding, content) => createHash(algorithm).update(content).digest(encoding)

const documentOf = (url, name, versions) => ({
  name,
  "dist-tags": { latest: versions.at(-1).manifest.version },
  versions: Object.fromEntries(
    versions.map(({ manifest, content }) => [
      manifest.version,
      {
        ...manifest,
        dist: {
          tarball: `${url}/${name}/-/${manifest.version}.tgz`,
          integrity: `sha512-${digest("sha512", "base64", content)}`,
          shasum: digest("sha1", "hex", content)
        }
      }
    ])
  )
})

/**
 * A registry of npm on this machine that has the given tarballs, and everything else as it is installed here: an install from it needs no
 * internet. Returns its address, and what closes it.
 */
export const serveRegistry = async (tarballs) => {
  const known = new Map(tarballs.map((one) => [one.manifest.name, Promise.resolve([one])]))
  const find = (name) => {
    if (!known.has(name)) known.set(name, versionsOf(name))
    return known.get(name)
  }
  // A connection that is closed for its idleness may be closed upon a request.
  const server = createServer({ keepAliveTimeout: 0 })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const url = `http://127.0.0.1:${server.address().port}`
  const answer = async (path) => {
    const [name, file] = path.slice(1).split("/-/")
    const versions = await find(name)
    if (versions.length === 0) return undefined
    if (file === undefined) return JSON.stringify(documentOf(url, name, versions))
    return versions.find(({ manifest }) => `${manifest.version}.tgz` === file)?.content
  }
  const respond = async (request, response) => {
    try {
      const body = await answer(decodeURIComponent(new URL(request.url, url).pathname))
      const type = typeof body === "string" ? "application/json" : "application/octet-stream"
      response.writeHead(body === undefined ? 404 : 200, { "content-type": type }).end(body)
    } catch (error) {
      response.writeHead(500).end(String(error))
    }
  }
  server.on("request", (request, response) => void respond(request, response))
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url, close }
}
