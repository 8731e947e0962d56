/**
 * Remote content as data for the model: between two lines that hold a delimiter, random per plan, which is taken out of the
 * content, so that nothing in it can close the envelope.
 */
export const wrap = (
  delimiter: string,
  source: { readonly tool: string; readonly agent: string | null },
  content: string
) =>
  [
    `<result ${delimiter} tool=${JSON.stringify(source.tool)} agent=${JSON.stringify(source.agent)}>`,
    content.replaceAll(delimiter, ""),
    `</result ${delimiter}>`
  ].join("\n")
