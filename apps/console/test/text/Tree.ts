import { type ComponentChildren, isValidElement } from "preact"

/** What a tree of nodes shows: its text, its elements, and the addresses it links to. */
export const shownBy = (children: ComponentChildren) => {
  const shown = { text: "", tags: new Set<string>(), links: new Array<string>(), dangerous: new Array<string>() }
  const visit = (node: ComponentChildren): void => {
    if (Array.isArray(node)) node.forEach(visit)
    else if (typeof node === "string" || typeof node === "number") shown.text += String(node)
    else if (isValidElement(node)) {
      const props = node.props as Record<string, unknown>
      if (typeof node.type === "string") shown.tags.add(node.type)
      if (typeof props["href"] === "string") shown.links.push(props["href"])
      shown.dangerous.push(
        ...Object.keys(props).filter((name) => /^on|^src|^dangerously|^style|^innerHTML/i.test(name))
      )
      visit(props["children"] as ComponentChildren)
    }
  }
  visit(children)
  return shown
}
