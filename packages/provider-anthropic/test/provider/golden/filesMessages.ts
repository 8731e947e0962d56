import type { MessageCreateParamsStreaming } from "@anthropic-ai/sdk/resources/messages"

/** The request of Messages for `files.json`, in the types of the official SDK. */
export const filesMessages = {
  model: "m",
  max_tokens: 1000,
  stream: true,
  messages: [
    {
      role: "user",
      content: [
        {
          type: "text",
          text: "What is"
        },
        {
          type: "text",
          text: "on these?"
        },
        {
          type: "image",
          source: {
            type: "base64",
            media_type: "image/png",
            data: "AXBuZw=="
          }
        },
        {
          type: "image",
          source: {
            type: "url",
            url: "https://files.test/b.jpg"
          }
        },
        {
          type: "text",
          text: "And in these?"
        },
        {
          type: "document",
          source: {
            type: "base64",
            media_type: "application/pdf",
            data: "JVBERi0xLjc="
          },
          title: "c.pdf"
        },
        {
          type: "document",
          source: {
            type: "base64",
            media_type: "application/pdf",
            data: "JVBERi0xLjc="
          }
        },
        {
          type: "document",
          source: {
            type: "url",
            url: "https://files.test/d.pdf"
          }
        },
        {
          type: "document",
          source: {
            type: "text",
            media_type: "text/plain",
            data: "Grüezi"
          },
          title: "e.txt"
        },
        {
          type: "document",
          source: {
            type: "text",
            media_type: "text/plain",
            data: "Grüezi"
          }
        },
        {
          type: "text",
          text: "[A file that cannot be shown: without a name (text/plain), at https://files.test/f.txt]"
        },
        {
          type: "text",
          text: "[A file that cannot be shown: g.docx (application/vnd.openxmlformats-officedocument.wordprocessingml.document)]"
        },
        {
          type: "text",
          text: "[A file that cannot be shown: h.tiff (image/tiff)]"
        },
        {
          type: "text",
          text: "[A file that cannot be shown: without a name (application/zip)]",
          cache_control: {
            type: "ephemeral"
          }
        }
      ]
    }
  ]
} satisfies MessageCreateParamsStreaming
