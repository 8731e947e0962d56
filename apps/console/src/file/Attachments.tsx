import { type Signal, useSignal } from "@preact/signals"
import { useEffect } from "preact/hooks"
import { type Attached, upload } from "./Upload.ts"

/** A part of a question. */
type Part = { readonly type: "text"; readonly text: string } | { readonly type: "file"; readonly file_id: string }

/** What is attached to a question that is being written. */
export interface Attachments {
  readonly files: Signal<ReadonlyArray<Attached>>
  readonly add: (files: Iterable<File>) => void
  readonly remove: (file: Attached) => void
  /** Why the question cannot be asked yet. */
  readonly obstacle: () => string | undefined
  /** The question with its files. */
  readonly questionWith: (text: string) => string | ReadonlyArray<Part>
  readonly clear: () => void
  /** What a form needs to take in what is dropped on it, or pasted. */
  readonly dropZone: {
    readonly onDragOver: (event: DragEvent) => void
    readonly onDrop: (event: DragEvent) => void
    readonly onPaste: (event: ClipboardEvent) => void
  }
}

/** The files of a form. Whoever leaves it ends the uploads that go on. */
export const useAttachments = (): Attachments => {
  const files = useSignal<ReadonlyArray<Attached>>([])
  const drop = () => {
    for (const file of files.peek()) file.drop()
  }
  useEffect(() => drop, [])
  const add = (given: Iterable<File>) => {
    files.value = [...files.peek(), ...Array.from(given, upload)]
  }
  const take = (event: Event, data: DataTransfer | null) => {
    if (data === null || data.files.length === 0) return
    event.preventDefault()
    add(data.files)
  }
  return {
    files,
    add,
    remove: (file) => {
      file.drop()
      files.value = files.peek().filter((one) => one !== file)
    },
    obstacle: () => {
      const open = files.peek().find(({ stored }) => stored.peek() === undefined)
      if (open === undefined) return undefined
      return open.problem.peek() === undefined
        ? `${open.name} is still being uploaded.`
        : `${open.name} is not stored: remove it, or attach it again.`
    },
    questionWith: (text) => {
      const ids = files.peek().flatMap(({ stored }) => stored.peek() ?? [])
      if (ids.length === 0) return text
      const said = text.trim() === "" ? [] : [{ type: "text" as const, text }]
      return [...said, ...ids.map((file_id) => ({ type: "file" as const, file_id }))]
    },
    clear: () => {
      drop()
      files.value = []
    },
    dropZone: {
      onDragOver: (event) => {
        if (event.dataTransfer?.types.includes("Files") === true) event.preventDefault()
      },
      onDrop: (event) => take(event, event.dataTransfer),
      onPaste: (event) => take(event, event.clipboardData)
    }
  }
}

const Attachment = ({ file, onRemove }: { readonly file: Attached; readonly onRemove: () => void }) => {
  const isOpen = file.stored.value === undefined && file.problem.value === undefined
  return (
    <li>
      {file.preview === undefined ? null : <img src={file.preview} alt="" />}
      <span>{file.name}</span>
      {isOpen ? <progress aria-label={`Upload of ${file.name}`} value={file.sent.value} /> : null}
      <span class={file.problem.value === undefined ? "dim" : "problem"} role="status">
        {file.problem.value ?? (isOpen ? "" : "stored")}
      </span>
      <button type="button" class="quiet" onClick={onRemove}>
        {isOpen ? "Cancel" : "Remove"}
        <span class="unseen"> {file.name}</span>
      </button>
    </li>
  )
}

/** Picks files, and shows those that are attached. */
export const AttachedFiles = ({ to }: { readonly to: Attachments }) => (
  <div class="attach">
    <label>
      Files
      <input
        type="file"
        multiple
        onChange={(event) => {
          to.add(event.currentTarget.files ?? [])
          // The same file can be picked again.
          event.currentTarget.value = ""
        }}
      />
    </label>
    {to.files.value.length === 0 ? null : (
      <ul aria-label="Attached files">
        {to.files.value.map((file) => (
          <Attachment key={file} file={file} onRemove={() => to.remove(file)} />
        ))}
      </ul>
    )}
  </div>
)
