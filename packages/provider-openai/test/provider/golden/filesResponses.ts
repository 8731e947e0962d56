import type { ResponseCreateParamsStreaming } from "openai/resources/responses/responses"

/** The request of Responses for `files.json`, in the types of the official SDK. */
export const filesResponses = {
  model: "m",
  stream: true,
  store: false,
  include: [
    "reasoning.encrypted_content"
  ],
  input: [
    {
      type: "message",
      role: "user",
      content: [
        {
          type: "input_text",
          text: "What is\n\non these?"
        },
        {
          type: "input_image",
          image_url: "data:image/png;base64,AXBuZw==",
          detail: "auto"
        },
        {
          type: "input_image",
          image_url: "https://files.test/b.jpg",
          detail: "auto"
        },
        {
          type: "input_text",
          text: "And in these?"
        },
        {
          type: "input_file",
          filename: "c.pdf",
          file_data: "data:application/pdf;base64,JVBERi0xLjc="
        },
        {
          type: "input_file",
          filename: "file.pdf",
          file_data: "data:application/pdf;base64,JVBERi0xLjc="
        },
        {
          type: "input_file",
          file_url: "https://files.test/d.pdf"
        },
        {
          type: "input_file",
          filename: "e.txt",
          file_data: "data:text/plain;base64,R3LDvGV6aQ=="
        },
        {
          type: "input_file",
          filename: "file.txt",
          file_data: "data:text/plain;base64,R3LDvGV6aQ=="
        },
        {
          type: "input_file",
          file_url: "https://files.test/f.txt"
        },
        {
          type: "input_file",
          filename: "g.docx",
          file_data: "data:application/vnd.openxmlformats-officedocument.wordprocessingml.document;base64,UEs="
        },
        {
          type: "input_text",
          text: "[A file that cannot be shown: h.tiff (image/tiff)]"
        },
        {
          type: "input_text",
          text: "[A file that cannot be shown: without a name (application/zip)]"
        }
      ]
    }
  ],
  max_output_tokens: 1000
} satisfies ResponseCreateParamsStreaming
