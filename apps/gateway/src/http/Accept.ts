/** How much a type is wanted: the `q` of the most exact range, how exact that is, and where it stands. */
const preference = (ranges: ReadonlyArray<string>, type: string) => {
  const [group] = type.split("/")
  const kinds = ["*/*", `${group}/*`, type]
  const found = ranges.map((range, position) => {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase())
    const q = parameters.find((parameter) => parameter.startsWith("q="))
    return { exactness: kinds.indexOf(name), q: q === undefined ? 1 : Number(q.slice(2)) || 0, position }
  })
  return found.sort((a, b) => b.exactness - a.exactness).find(({ exactness }) => exactness >= 0)
}

/** Whether one JSON object is wanted rather than a stream: where both are wanted alike, the one that is named first is. */
export const prefersJson = (accept: string | undefined): boolean => {
  if (accept === undefined) return false
  const ranges = accept.split(",")
  const json = preference(ranges, "application/json")
  const stream = preference(ranges, "text/event-stream")
  if (json === undefined || json.q === 0) return false
  if (stream === undefined) return true
  if (json.q !== stream.q) return json.q > stream.q
  return json.exactness === stream.exactness ? json.position < stream.position : json.exactness > stream.exactness
}
