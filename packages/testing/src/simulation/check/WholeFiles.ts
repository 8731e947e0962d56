import type { Observed } from "../scenario/Observed.ts"

/**
 * A file that its caller was told of is stored as it was sent, and once for the same bytes. Nothing is left of an upload that was cut or refused, or whose process died: no file, and
 * no chunk.
 */
export const wholeFiles = ({ files, uploads }: Observed): ReadonlyArray<string> => {
  const kept = files.filter(({ isKept }) => isKept)
  const byDigest = Map.groupBy(kept, ({ sha256 }) => sha256)
  return [
    ...uploads.flatMap(({ file_id, plan, sha256 }) =>
      file_id === undefined || kept.some((file) => file.file_id === file_id && file.sha256 === sha256)
        ? []
        : [`${file_id}, a file of ${plan}, is not stored as it was sent`]
    ),
    ...files.flatMap(({ file_id, isKept, replica, sha256 }) =>
      isKept || sha256 === undefined ? [] : [`chunks are left of ${file_id}, which ${replica} has begun`]
    ),
    ...kept.flatMap(({ file_id, sha256 }) =>
      uploads.some((upload) => upload.sha256 === sha256 && !upload.isCut)
        ? []
        : [`${file_id} is a file, and nobody has sent all of it`]
    ),
    ...Array.from(byDigest.values()).flatMap((same) =>
      same.length > 1 ? [`${same.map(({ file_id }) => file_id).join(" and ")} have the same bytes`] : []
    )
  ]
}
