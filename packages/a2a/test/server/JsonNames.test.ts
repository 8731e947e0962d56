import { assert, it } from "@effect/vitest"
import { withJsonNames } from "../../src/server/JsonNames.ts"

it("the parameters of a client may have the names of protocol buffers, and what it makes up stays as it is", () => {
  const free = { bowline: { mcp_servers: [] }, made_up: [{ a_b: 1 }] }
  const params = {
    task_id: "t",
    message: { message_id: "m_1", parts: [{ text: "a_b", media_type: "text/plain" }, { data: free }], metadata: free },
    configuration: { return_immediately: true, task_push_notification_config: { url: "http://a.test/a_b" } }
  }
  assert.deepStrictEqual(withJsonNames(params), {
    taskId: "t",
    message: { messageId: "m_1", parts: [{ text: "a_b", mediaType: "text/plain" }, { data: free }], metadata: free },
    configuration: { returnImmediately: true, taskPushNotificationConfig: { url: "http://a.test/a_b" } }
  })
  for (const none of [null, "a_b", 7, []]) assert.deepStrictEqual(withJsonNames(none), none)
})
