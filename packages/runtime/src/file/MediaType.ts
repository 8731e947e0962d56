import { FileRefused } from "@bowline/domain/plan/Refusal"
import { filetypeinfo } from "magic-bytes.js"

/** The kinds of images that models take, and pages show. */
const images: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/webp", "image/gif"])

/** What everybody has to be right about: models read it, and browsers show it. */
const isExact = (type: string): boolean => images.has(type) || type === "application/pdf"

/** The types of texts that are not under `text/`. */
const isText = (type: string): boolean =>
  /^text\/|\+(json|xml|yaml)$|^application\/(json|xml|yaml|javascript|typescript|toml|sql|graphql|x-(ndjson|yaml|sh|javascript))$/.test(
    type
  )

/** What programs send that do not know what they send. `curl --data-binary` says that it sends a form, S3 has a word of its own. */
const isUnsaid = (type: string): boolean =>
  /^$|^(application|binary)\/octet-stream$|^application\/x-www-form-urlencoded$/.test(type)

const aliases: Readonly<Record<string, string>> = { "image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg" }

/** A media type in lower case and without parameters: empty if it is none. */
export const plainType = (said: string): string => {
  const [type = ""] = said.toLowerCase().split(";")
  const plain = type.trim()
  return /^[a-z0-9][a-z0-9.+-]{0,126}\/[a-z0-9][a-z0-9.+-]{0,126}$/.test(plain) ? (aliases[plain] ?? plain) : ""
}

/** How a type is perceived. Containers of films and of sounds begin alike. */
const familyOf = (type: string): string =>
  /^(audio|video)\/|^application\/ogg$/.test(type) ? "media" : type.slice(0, type.indexOf("/"))

/** How many bytes tell what a file is. */
const magicBytes = 4_096

/** What the first bytes may be the beginning of, by their magic numbers. */
export const typesOf = (head: Uint8Array): ReadonlyArray<string> =>
  filetypeinfo(head.subarray(0, magicBytes)).flatMap(({ mime }) => (mime === undefined ? [] : [plainType(mime)]))

const mismatch = (said: string, are: string) =>
  new FileRefused({ code: "media_type_mismatch", message: `It was sent as ${said}, and its bytes are ${are}` })

/**
 * Decides the media type of a file by its bytes: what their magic numbers are, and whether all of them are text in UTF-8. What was said counts where they do not tell. Images that
 * models take, PDFs and texts have to be what was said, of other types only the family.
 */
export const decide = (said: string, found: ReadonlyArray<string>, isUtf8: boolean): string | FileRefused => {
  const exact = found.find(isExact)
  if (exact !== undefined) return isUnsaid(said) || said === exact ? exact : mismatch(said, exact)
  if (isUnsaid(said)) return isUtf8 ? "text/plain" : (found.find((type) => !isText(type)) ?? "application/octet-stream")
  if (isText(said)) return isUtf8 ? said : mismatch(said, "not text in UTF-8")
  if (isExact(said)) return mismatch(said, found[0] ?? (isUtf8 ? "text" : "something else"))
  if (isUtf8) return familyOf(said) === "application" ? said : mismatch(said, "text")
  const isFamily = found.length === 0 || found.some((type) => type === said || familyOf(type) === familyOf(said))
  return isFamily ? said : mismatch(said, found.join(" or "))
}

export const isImage = (type: string): boolean => images.has(type)
