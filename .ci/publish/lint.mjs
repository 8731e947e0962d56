import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core"
import { publint } from "publint"
import { formatMessage } from "publint/utils"

/** An ES module is not there for `require` of CommonJS, nor for a resolution that does not know `exports`. */
const esmOnly = { resolutions: new Set(["node10", "node16-cjs"]), kinds: new Set(["CJSResolvesToESM"]) }

const wrongTypes = async (content) => {
  const { problems = [] } = await checkPackage(createPackageFromTarballData(content))
  return problems
    .filter(({ kind, resolutionKind }) => !esmOnly.kinds.has(kind) && !esmOnly.resolutions.has(resolutionKind))
    .map((problem) => JSON.stringify(problem))
}

/** What publint, and Are The Types Wrong for modules of ES only, say about a tarball, a line each. */
export const lint = async ({ content, manifest }) => {
  const tarball = content.buffer.slice(content.byteOffset, content.byteOffset + content.length)
  const { messages, pkg } = await publint({ pack: { tarball }, level: "warning", strict: true })
  const said = messages.map((message) => formatMessage(message, pkg, { color: false }) ?? message.code)
  const isLibrary = Object.keys(manifest.exports).length > 0
  const types = isLibrary ? await wrongTypes(content) : []
  return [...said, ...types].map((line) => `${manifest.name}: ${line}`)
}
