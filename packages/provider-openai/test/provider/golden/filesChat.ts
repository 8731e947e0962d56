import type { ChatCompletionCreateParamsStreaming } from "openai/resources/chat/completions"

/** The request of Chat Completions for `files.json`, in the types of the official SDK. */
export const filesChat = {
  model: "m",
  stream: true,
  stream_options: {
    include_usage: true
  },
  max_tokens: 1000,
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
          type: "image_url",
          image_url: {
            url: "data:image/png;base64,AXBuZw=="
          }
        },
        {
          type: "image_url",
          image_url: {
            url: "https://files.test/b.jpg"
          }
        },
        {
          type: "text",
          text: "And in these?"
        },
        {
          type: "file",
          file: {
            filename: "c.pdf",
            file_data: "data:application/pdf;base64,JVBERi0xLjc="
          }
        },
        {
          type: "file",
          file: {
            filename: "file.pdf",
            file_data: "data:application/pdf;base64,JVBERi0xLjc="
          }
        },
        {
          type: "text",
          text: "[A file that cannot be shown: without a name (application/pdf), at https://files.test/d.pdf]"
        },
        {
          type: "text",
          text: "e.txt:\n\nGrüezi"
        },
        {
          type: "text",
          text: "text/plain:\n\nGrüezi"
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
          text: "[A file that cannot be shown: without a name (application/zip)]"
        }
      ]
    }
  ]
} satisfies ChatCompletionCreateParamsStreaming
