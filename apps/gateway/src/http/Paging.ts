import { defaultLimit } from "@bowline/protocol/api/Page"
import type { PageRequest } from "@bowline/runtime/store/Page"

export const toPageRequest = ({ limit = defaultLimit, cursor }: Partial<PageRequest>): PageRequest => ({
  limit,
  ...(cursor === undefined ? {} : { cursor })
})
