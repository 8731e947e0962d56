/** How many streams a browser keeps open at once. It has six connections to a gateway over HTTP/1.1, and other requests need some. */
const slots = ["bowline-stream-1", "bowline-stream-2", "bowline-stream-3", "bowline-stream-4"]

const tryOne = (name: string): Promise<(() => void) | undefined> =>
  new Promise((answer, fail) => {
    navigator.locks
      .request(name, { ifAvailable: true }, (lock) => {
        if (lock === null) return answer(undefined)
        return new Promise<void>((release) => {
          answer(release)
        })
      })
      .catch(fail)
  })

/**
 * Takes one of the four places for a stream that all tabs of this browser share, and answers with what gives it back; undefined if
 * all are taken. A page without Web Locks (plain http on another host than this one) cannot know of other tabs, and takes none.
 */
export const takeSlot = async (): Promise<(() => void) | undefined> => {
  if (!("locks" in navigator)) return undefined
  for (const name of slots) {
    const release = await tryOne(name)
    if (release !== undefined) return release
  }
  return undefined
}
