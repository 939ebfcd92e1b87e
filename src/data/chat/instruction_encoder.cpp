// SPDX-License-Identifier: Apache-2.0
#include "data/chat/instruction_encoder.h"

#include <algorithm>

#include "data/chat/assistant_spans.h"
#include "core/error.h"

namespace gradmill {
namespace {

using jinja::Value;

InstructionExample all_learned(std::vector<TokenId> ids) {
  std::vector<uint8_t> learned(ids.size(), 1);
  return {std::move(ids), std::move(learned)};
}

// Both spans and tokens are in order.
std::vector<uint8_t> learned_tokens(const std::vector<TokenSpan>& tokens, const std::vector<ByteSpan>& spans) {
  std::vector<uint8_t> learned(tokens.size(), 0);
  size_t span = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    while (span < spans.size() && spans[span].end <= tokens[i].begin) ++span;
    if (span == spans.size()) break;
    learned[i] = tokens[i].begin < spans[span].end && tokens[i].end > spans[span].begin;
  }
  return learned;
}

// The first token is never a target, because no token comes before it.
bool learns_nothing(const InstructionExample& example) {
  return example.learned.size() < 2 ||
         std::all_of(example.learned.begin() + 1, example.learned.end(), [](uint8_t flag) { return flag == 0; });
}

std::vector<int64_t> integers(const Record& record, std::string_view name) {
  const Value list = field_value(record, name, Nested::yes);
  const auto is_whole = [](const Value& item) { return item.is_integer() || item.is_bool(); };
  if (!list.is_list() || !std::ranges::all_of(list.items(), is_whole)) {
    throw BadExample(BadRecord::malformed, fmt::format("field '{}' must be a list of integers", name));
  }
  std::vector<int64_t> values;
  for (const Value& item : list.items()) values.push_back(item.integer());
  return values;
}

// One number per id; all are 1 if the field is missing.
std::vector<int64_t> flags(const Record& record, std::string_view name, size_t size) {
  if (record.find(name) == nullptr) return std::vector<int64_t>(size, 1);
  std::vector<int64_t> values = integers(record, name);
  if (values.size() == size) return values;
  throw BadExample(BadRecord::malformed,
                   fmt::format("field '{}' has {} numbers for {} tokens", name, values.size(), size));
}

bool begins_with(const std::vector<TokenId>& ids, const std::vector<TokenId>& first) {
  return ids.size() >= first.size() && std::equal(first.begin(), first.end(), ids.begin());
}

bool ends_with(const std::vector<TokenId>& ids, const std::vector<TokenId>& last) {
  return ids.size() >= last.size() && std::equal(last.rbegin(), last.rend(), ids.rbegin());
}

}  // namespace

InstructionEncoder::InstructionEncoder(std::shared_ptr<const Tokenizer> tokenizer, ChatFormat format,
                                       const InstructionOptions& options)
    : tokenizer_(std::move(tokenizer)), format_(std::move(format)), options_(options) {
  if (options.max_length < 0) throw usage_error("a maximal length below 0", "use 0 for any length");
  bool at_text = false;
  for (const SequenceTemplate::Piece& piece : tokenizer_->sequence_template().single()) {
    if (piece.kind == SequenceTemplate::Piece::Kind::token)
      (at_text ? behind_ : before_).push_back(piece.id);
    else
      at_text = true;
  }
}

std::optional<InstructionExample> InstructionEncoder::encode(const Record& record, InstructionCounts& counts,
                                                             BadRecords& bad) const {
  try {
    return encode(record, counts);
  } catch (const BadExample& fault) {
    bad.report(fault.kind(), record.file, record.line, fault.what());
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    bad.report(BadRecord::not_encodable, record.file, record.line, error.what());
  }
  return std::nullopt;
}

std::optional<InstructionExample> InstructionEncoder::encode(const Record& record, InstructionCounts& counts) const {
  bool split_prompt = false;
  InstructionExample example = read(record, split_prompt);
  ++counts.num_examples;
  const auto place = [&] { return fmt::format("'{}' line {}", record.file, record.line); };
  if (split_prompt && counts.num_split_prompts++ == 0) counts.first_split = place();
  const auto limit = static_cast<size_t>(options_.max_length);
  if (limit > 0 && example.ids.size() > limit) {
    ++counts.num_truncated;
    example.ids.resize(limit);
    example.learned.resize(limit);
  }
  if (!learns_nothing(example)) return example;
  if (counts.num_masked++ == 0) counts.first_masked = place();
  return std::nullopt;
}

InstructionExample InstructionEncoder::read(const Record& record, bool& split_prompt) const {
  const ExampleShape shape = options_.shape == ExampleShape::automatic ? detect_shape(record) : options_.shape;
  switch (shape) {
    case ExampleShape::automatic:
    case ExampleShape::text:
      return read_text(record);
    case ExampleShape::alpaca:
      return options_.alpaca_as_chat ? encode_conversation(read_alpaca_chat(record))
                                     : encode_texts(read_alpaca(record), split_prompt);
    case ExampleShape::prompt_completion:
      return read_prompt_completion(record, split_prompt);
    case ExampleShape::sharegpt:
      return encode_conversation(read_sharegpt(record));
    case ExampleShape::messages:
      return encode_conversation(read_messages(record));
    case ExampleShape::segments:
      return read_segments(record);
    case ExampleShape::tokenized:
      return read_tokenized(record);
  }
  return {};
}

std::string InstructionEncoder::with_eos(std::string text) const {
  return text.ends_with(format_.eos_token) ? text : text + format_.eos_token;
}

std::vector<TokenId> InstructionEncoder::with_template(std::vector<TokenId> ids, bool whole) const {
  if (!begins_with(ids, before_)) ids.insert(ids.begin(), before_.begin(), before_.end());
  if (whole && !ends_with(ids, behind_)) ids.insert(ids.end(), behind_.begin(), behind_.end());
  return ids;
}

InstructionExample InstructionEncoder::read_text(const Record& record) const {
  const std::string text = with_eos(text_field(record, "text"));
  return all_learned(with_template(tokenizer_->encode(text).ids, true));
}

InstructionExample InstructionEncoder::encode_parts(std::vector<TokenId> prompt, std::vector<TokenId> whole,
                                                    bool& split_prompt) const {
  const size_t size = std::min(prompt.size(), whole.size());
  const auto differ = std::mismatch(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size), prompt.begin());
  const auto num_shared = static_cast<size_t>(differ.first - whole.begin());
  split_prompt = num_shared < prompt.size();
  InstructionExample example = all_learned(std::move(whole));
  if (options_.completion_only) std::fill_n(example.learned.begin(), num_shared, uint8_t{0});
  return example;
}

InstructionExample InstructionEncoder::encode_texts(const PromptCompletion& texts, bool& split_prompt) const {
  const std::string whole = with_eos(texts.prompt + texts.completion);
  return encode_parts(with_template(tokenizer_->encode(texts.prompt).ids, false),
                      with_template(tokenizer_->encode(whole).ids, true), split_prompt);
}

ChatInput InstructionEncoder::chat_input(const Conversation& conversation) const {
  ChatInput input;
  input.messages = conversation.messages;
  input.tools = conversation.tools;
  input.documents = conversation.documents;
  // The first variable with a name wins, so a record can override the tokenizer.
  input.variables = conversation.variables;
  input.variables.insert(input.variables.end(), format_.special_tokens.begin(), format_.special_tokens.end());
  input.now = options_.now;
  return input;
}

InstructionExample InstructionEncoder::read_prompt_completion(const Record& record, bool& split_prompt) const {
  const RecordField* prompt = record.find("prompt");
  if (prompt == nullptr || !prompt->is_json) {
    return encode_texts({text_field(record, "prompt"), text_field(record, "completion")}, split_prompt);
  }
  const Value first = checked_messages(field_value(record, "prompt", Nested::yes), "prompt");
  const Value rest = checked_messages(field_value(record, "completion", Nested::yes), "completion");
  Conversation conversation;
  read_extras(record, conversation);
  conversation.messages = first;
  ChatInput input = chat_input(conversation);
  const ChatTemplate& chat = format_.template_for(!input.tools.is_none());
  input.add_generation_prompt = true;
  const std::string prompt_text = chat.render(input).text;
  std::vector<Value> all = first.items();
  all.insert(all.end(), rest.items().begin(), rest.items().end());
  input.messages = jinja::make_list(std::move(all), {});
  input.add_generation_prompt = false;
  return encode_parts(tokenizer_->encode(prompt_text).ids, tokenizer_->encode(chat.render(input).text).ids,
                      split_prompt);
}

InstructionExample InstructionEncoder::encode_conversation(Conversation conversation) const {
  const ChatInput input = chat_input(conversation);
  const ChatTemplate& chat = format_.template_for(!input.tools.is_none());
  if (!options_.assistant_only) return all_learned(tokenizer_->encode(chat.render(input).text).ids);
  const AssistantText assistant = assistant_text(chat, input, format_.eos_token);
  Encoding encoding = tokenizer_->encode(assistant.text, {.offsets = true});
  std::vector<uint8_t> learned = learned_tokens(encoding.offsets, assistant.spans);
  return {std::move(encoding.ids), std::move(learned)};
}

InstructionExample InstructionEncoder::read_segments(const Record& record) const {
  const Value segments = field_value(record, "segments", Nested::yes);
  if (segments.is_none()) throw BadExample(BadRecord::missing_field, "no field 'segments'");
  InstructionExample example;
  const size_t num_segments = segments.is_list() ? segments.items().size() : 0;
  for (size_t i = 0; i < num_segments; ++i) {
    const Value& segment = segments.items()[i];
    const Value* text = segment.is_dict() ? segment.dict().find("text") : nullptr;
    const Value* label = segment.is_dict() ? segment.dict().find("label") : nullptr;
    if (text == nullptr || label == nullptr || !text->is_text() || !label->is_bool()) break;
    const std::vector<TokenId> ids = tokenizer_->encode(text->text()).ids;
    example.ids.insert(example.ids.end(), ids.begin(), ids.end());
    example.learned.resize(example.ids.size(), label->boolean());
    if (i + 1 == num_segments) return example;
  }
  throw BadExample(BadRecord::malformed,
                   "field 'segments' must be a list of objects with a text 'text' and 'label' true or false");
}

InstructionExample InstructionEncoder::read_tokenized(const Record& record) const {
  if (record.find("input_ids") == nullptr) throw BadExample(BadRecord::missing_field, "no field 'input_ids'");
  const std::vector<int64_t> ids = integers(record, "input_ids");
  const std::vector<int64_t> labels = record.find("labels") == nullptr ? ids : flags(record, "labels", ids.size());
  const std::vector<int64_t> attention = flags(record, "attention_mask", ids.size());
  const std::vector<int64_t> completion = flags(record, "completion_mask", ids.size());
  const std::vector<int64_t> assistant = flags(record, "assistant_masks", ids.size());
  InstructionExample example;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (attention[i] == 0) continue;
    if (ids[i] < 0 || ids[i] >= tokenizer_->vocab_size()) {
      throw BadExample(BadRecord::not_encodable, fmt::format("token {} is {}, and the vocabulary has {} ids", i, ids[i],
                                                             tokenizer_->vocab_size()));
    }
    const bool labelled = labels[i] != -100;
    if (labelled && labels[i] != ids[i]) {
      throw BadExample(BadRecord::malformed,
                       fmt::format("label {} is {}, and must be the token, {}, or -100", i, labels[i], ids[i]));
    }
    example.ids.push_back(static_cast<TokenId>(ids[i]));
    example.learned.push_back(labelled && completion[i] != 0 && assistant[i] != 0);
  }
  return example;
}

}  // namespace gradmill
