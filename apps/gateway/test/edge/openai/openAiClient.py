"""Asks a gateway by OpenAI's client for Python, unchanged. Its arguments are the base URL, and the text that every answer has."""

import sys

from openai import BadRequestError, NotFoundError, OpenAI

url, text = sys.argv[1:]
client = OpenAI(base_url=url, api_key="none", max_retries=0)
question = {"role": "user", "content": "?"}


def asked(**fields):
    return client.chat.completions.create(model="bowline", messages=[question], **fields)


assert [model.id for model in client.models.list()] == ["bowline"]
assert client.models.retrieve("bowline").owned_by == "bowline"

# Chat Completions
answer = asked(extra_body={"bowline": {"preferences": {"timeout_ms": 60000}}})
assert answer.choices[0].message.content == text
assert answer.choices[0].finish_reason == "stop"
assert answer.usage.total_tokens == 5
chunks = list(asked(stream=True, stream_options={"include_usage": True}))
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
assert chunks[-1].usage.total_tokens == 5
with client.chat.completions.stream(model="bowline", messages=[question]) as stream:
    assert stream.get_final_completion().choices[0].message.content == text

# Completions that are stored
first, second = [asked(store=True, metadata={"desk": desk}) for desk in ("7", "8")]
stored = client.chat.completions
assert [one.id for one in stored.list(limit=1)] == [first.id, second.id]
assert [one.id for one in stored.list(order="desc")] == [second.id, first.id]
assert [one.id for one in stored.list(metadata={"desk": "8"}, model="bowline")] == [second.id]
assert stored.retrieve(first.id).choices == first.choices
assert stored.update(first.id, metadata={"desk": "9"}).metadata == {"desk": "9"}
assert [message.content for message in stored.messages.list(first.id)] == ["?"]
assert stored.delete(first.id).deleted
try:
    stored.retrieve(first.id)
    raise AssertionError("The completion is still there")
except NotFoundError as error:
    assert error.code == "not_found"

# Responses
response = client.responses.create(model="bowline", input="?")
assert (response.status, response.output_text, response.usage.total_tokens) == ("completed", text, 5)
events = list(client.responses.create(model="bowline", input="?", previous_response_id=response.id, stream=True))
assert events[-1].type == "response.completed"
last = events[-1].response
assert last.output_text == text
assert client.responses.retrieve(last.id).output == last.output
assert [item.content[0].text for item in client.responses.input_items.list(last.id)] == ["?"]
assert client.responses.input_tokens.count(model="bowline", input="?").input_tokens > 0
assert client.responses.compact(model="bowline", input="?").usage.total_tokens == 0
try:
    client.responses.create(model="bowline", input="?", tool_choice="required")
    raise AssertionError("It is not refused")
except BadRequestError as error:
    assert error.param == "tool_choice"

# Conversations
conversation = client.conversations.create(items=[question], metadata={"desk": "7"})
client.responses.create(model="bowline", input="And now?", conversation=conversation.id)
items = list(client.conversations.items.list(conversation.id, order="asc"))
assert [item.content[0].text for item in items] == ["?", "And now?", text]
assert client.conversations.update(conversation.id, metadata={"desk": "8"}).metadata == {"desk": "8"}
assert client.conversations.delete(conversation.id).deleted

# Files
file = client.files.create(file=("knots.txt", b"A bowline never jams."), purpose="user_data")
assert client.files.content(file.id).text == "A bowline never jams."
assert client.files.delete(file.id).deleted
