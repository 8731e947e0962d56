import type { Plan, PlanView } from "@bowline/client"
import { useSignal } from "@preact/signals"
import { askJson, fieldsOf } from "../gateway/Gateway.ts"
import { useResource } from "../gateway/Resource.ts"
import { count } from "../text/Format.ts"
import { isPicture } from "./Upload.ts"

/** A file of a question or of a message, by its id. */
export interface ShownFile {
  readonly file_id: string
  readonly name: string
  readonly media_type: string
  readonly bytes: number
  readonly width: number | null
  readonly height: number | null
}

/** A file with its picture, if it is one, to look at and to download. */
export const StoredFile = ({
  file: { bytes, file_id, height, media_type, name, width }
}: {
  readonly file: ShownFile
}) => {
  const isGone = useSignal(false)
  const href = `/files/${encodeURIComponent(file_id)}/content`
  return (
    <figure class="file">
      {!isPicture(media_type) || isGone.value ? null : (
        <a href={href} target="_blank" rel="noopener noreferrer">
          <img
            src={href}
            alt={name}
            loading="lazy"
            width={width ?? undefined}
            height={height ?? undefined}
            onError={() => {
              isGone.value = true
            }}
          />
        </a>
      )}
      <figcaption>
        <a href={href} download={name}>
          {name}
        </a>{" "}
        <span class="dim">
          {media_type}
          {width === null ? "" : `, ${width}×${height}`}, {count(bytes)} bytes
        </span>
      </figcaption>
    </figure>
  )
}

const idOf = (part: unknown): ReadonlyArray<string> => {
  const { file_id } = fieldsOf(part)
  return typeof file_id === "string" ? [file_id] : []
}

const idsOf = ({ request }: Plan): ReadonlyArray<string> => {
  const question = request?.["question"]
  return Array.isArray(question) ? Array.from(new Set(question.flatMap(idOf))) : []
}

const isFile = (value: object): value is ShownFile => "media_type" in value

/** The id at the end of the line that stands for a file of a tool. Whatever else says so names no file of the caller, or one that is the caller's. */
const givenIn = ({ tasks }: PlanView): ReadonlyArray<string> => {
  const contents = tasks.flatMap(({ artifacts }) =>
    artifacts.map(({ content }) => (typeof content === "string" ? content : ""))
  )
  return Array.from(new Set(contents.flatMap((content) => /, (file_[\da-f-]{36})\]$/.exec(content)?.slice(1) ?? [])))
}

/** The files of a plan's question, and those that its tools gave. One that is gone, or another caller's, is a line only. */
export const PlanFiles = ({ plan, view }: { readonly plan: Plan; readonly view: PlanView }) => (
  <>
    <Gallery name="Files of the question" ids={idsOf(plan)} />
    <Gallery name="Files of tools" ids={givenIn(view)} />
  </>
)

const Gallery = ({ ids, name }: { readonly ids: ReadonlyArray<string>; readonly name: string }) => {
  const { data } = useResource(ids.join(), (signal) =>
    Promise.all(ids.map((id) => askJson(`/files/${encodeURIComponent(id)}`, { signal }).catch(() => ({}))))
  )
  const files = (data.value ?? []).filter(isFile)
  return files.length === 0 ? null : (
    <section class="files" aria-label={name}>
      {files.map((file) => (
        <StoredFile key={file.file_id} file={file} />
      ))}
    </section>
  )
}
