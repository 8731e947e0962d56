import type { Client } from "@modelcontextprotocol/client"
import { timeout } from "./ServerTaskCalls.ts"

/** What a server says of changes of its tools. */
export class Announcements {
  readonly #client: Client
  #count = 0
  #isListening = false
  /** Whether the server has begun to list its tools since it was asked to tell of changes. */
  isListed = false

  constructor(client: Client) {
    this.#client = client
    client.setNotificationHandler("notifications/tools/list_changed", () => this.#outdate())
  }

  /** How often the tools may have changed. */
  get count(): number {
    return this.#count
  }

  /** Has the server tell of changes, in the revisions where it does not by itself. It ends with the client. */
  listen(): void {
    if (this.#isListening || this.#client.getProtocolEra() === "legacy") return
    this.#isListening = true
    this.isListed = false
    void this.#subscribe()
  }

  #outdate(): void {
    this.#count++
  }

  /** What came before the server listened, and what it says when it listens no more, are lost: then the tools may have changed. */
  async #subscribe(): Promise<void> {
    const subscription = await this.#client.listen({ toolsListChanged: true }, { timeout }).catch(() => undefined)
    // A server that refuses to tell is not asked again.
    if (subscription === undefined) return
    if (this.isListed) this.#outdate()
    await subscription.closed
    this.#isListening = false
    this.#outdate()
  }
}
