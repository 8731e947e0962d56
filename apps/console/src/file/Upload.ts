import { signal, type ReadonlySignal } from "@preact/signals"
import { fieldsOf, signedOut } from "../gateway/Gateway.ts"

/** A file that somebody attaches. It is `stored` under its id, or has a `problem`. */
export interface Attached {
  readonly name: string
  /** Where its picture is, if it is one: in this page alone. */
  readonly preview: string | undefined
  /** The part of it that has been sent, from 0 to 1. */
  readonly sent: ReadonlySignal<number>
  readonly stored: ReadonlySignal<string | undefined>
  readonly problem: ReadonlySignal<string | undefined>
  /** Ends the upload, and forgets the picture. */
  readonly drop: () => void
}

/** The types that the gateway shows in a page. */
export const isPicture = (type: string): boolean => /^image\/(png|jpeg|webp|gif)$/.test(type)

/** Sends a file to the gateway. `fetch` does not tell how far it is. */
export const upload = (file: File): Attached => {
  const request = new XMLHttpRequest()
  const [sent, stored, problem] = [
    signal(0),
    signal<string | undefined>(undefined),
    signal<string | undefined>(undefined)
  ]
  const preview = isPicture(file.type) ? URL.createObjectURL(file) : undefined
  request.responseType = "json"
  request.open("POST", "/files")
  request.setRequestHeader("accept", "application/json")
  request.setRequestHeader("content-type", file.type || "application/octet-stream")
  request.setRequestHeader(
    "content-disposition",
    `attachment; filename*=UTF-8''${encodeURIComponent(file.name).replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`)}`
  )
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    sent.value = total === 0 ? 0 : loaded / total
  })
  request.addEventListener("load", () => {
    const { detail, file_id } = fieldsOf(request.response)
    if (request.status === 401) signedOut.value = true
    if (request.status < 300 && typeof file_id === "string") stored.value = file_id
    else problem.value = typeof detail === "string" ? detail : `The gateway answered ${request.status}.`
  })
  request.addEventListener("error", () => {
    problem.value = "The gateway cannot be reached."
  })
  request.send(file)
  return {
    name: file.name,
    preview,
    sent,
    stored,
    problem,
    drop: () => {
      request.abort()
      if (preview !== undefined) URL.revokeObjectURL(preview)
    }
  }
}
