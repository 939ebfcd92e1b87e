// SPDX-License-Identifier: Apache-2.0
#include "config/unknown_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/suggest.h"

namespace gradmill {
namespace {

struct Translation {
  std::string_view theirs, ours;
};
// The names that transformers, PEFT and nanoGPT use for our settings.
constexpr Translation kTranslations[] = {
    {"learning_rate", "optimizer.lr"},
    {"min_learning_rate", "optimizer.min_lr"},
    {"max_grad_norm", "optimizer.clip"},
    {"grad_clip", "optimizer.clip"},
    {"optim", "optimizer.name"},
    {"lr_scheduler_type", "schedule.name"},
    {"warmup_iters", "schedule.warmup_steps"},
    {"warmup_ratio", "schedule.warmup_fraction"},
    {"max_steps", "training.steps"},
    {"max_iters", "training.steps"},
    {"num_epochs", "training.epochs"},
    {"num_train_epochs", "training.epochs"},
    {"train_batch_size", "training.batch_size"},
    {"per_device_train_batch_size", "training.micro_batch_size"},
    {"gradient_accumulation_steps", "training.micro_batch_size"},
    {"eval_batch_size", "eval.batch_size"},
    {"per_device_eval_batch_size", "eval.batch_size"},
    {"eval_steps", "eval.every_steps"},
    {"eval_interval", "eval.every_steps"},
    {"early_stopping_patience", "eval.patience"},
    {"save_steps", "checkpoint.every_steps"},
    {"save_total_limit", "checkpoint.keep_last"},
    {"out_dir", "checkpoint.dir"},
    {"output_dir", "checkpoint.dir"},
    {"logging_steps", "logging.every_steps"},
    {"n_layer", "model.layers"},
    {"num_layers", "model.layers"},
    {"num_hidden_layers", "model.layers"},
    {"n_head", "model.heads"},
    {"num_heads", "model.heads"},
    {"num_attention_heads", "model.heads"},
    {"num_key_value_heads", "model.kv_heads"},
    {"n_embd", "model.width"},
    {"d_model", "model.width"},
    {"hidden_size", "model.width"},
    {"intermediate_size", "model.mlp_width"},
    {"block_size", "model.context"},
    {"seq_len", "model.context"},
    {"max_length", "model.context"},
    {"max_seq_length", "model.context"},
    {"model_name_or_path", "model.path"},
    {"load_in_4bit", "model.load_in"},
    {"load_in_8bit", "model.load_in"},
    {"lora_r", "adapter.rank"},
    {"lora_alpha", "adapter.alpha"},
    {"lora_dropout", "adapter.dropout"},
    {"target_modules", "adapter.targets"},
    {"use_dora", "adapter.kind"},
    {"attn_implementation", "attention.backend"},
    {"torch_compile", "compile.mode"},
    {"gradient_checkpointing", "machine.save_policy"},
    {"precision", "machine.dtype"},
    {"bf16", "machine.dtype"},
    {"fp16", "machine.dtype"},
    {"tf32", "machine.dtype"},
};

// Suggests a setting for a key that belongs to another section (people remember `lr`, not its section) or that other
// programs use. Empty if there is none.
std::string key_elsewhere(const FieldList& list, const std::string& key) {
  for (const Field& field : list.fields()) {
    if (field.key == key) return fmt::format("; did you mean '{}'?", field.name());
  }
  for (const Translation& translation : kTranslations) {
    if (translation.theirs == key && list.find(std::string(translation.ours)) != nullptr) {
      return fmt::format("; in Gradmill it is {}", translation.ours);
    }
  }
  return "";
}

std::string or_else(std::string text, const std::string& otherwise) { return text.empty() ? otherwise : text; }

}  // namespace

std::vector<std::string> keys_of(const FieldList& list, const std::string& section) {
  std::vector<std::string> keys;
  for (const Field& field : list.fields()) {
    if (field.section == section) keys.push_back(field.key);
  }
  return keys;
}

std::string unknown_section(const FieldList& list, const std::string& section) {
  std::vector<std::string> names;
  for (const Section& known : list.sections()) names.push_back(known.name);
  return fmt::format("unknown section {}; sections: {}{}", quoted_text(section), fmt::join(names, ", "),
                     or_else(key_elsewhere(list, section), did_you_mean(section, names)));
}

std::string unknown_key(const FieldList& list, const std::string& section, const std::string& key) {
  const std::vector<std::string> keys = keys_of(list, section);
  const auto near = closest(key, keys);
  return fmt::format(
      "unknown key {}; keys of {}: {}{}", quoted_text(section + "." + key), section, fmt::join(keys, ", "),
      or_else(key_elsewhere(list, key), near ? fmt::format("; did you mean '{}.{}'?", section, *near) : ""));
}

std::string unknown_group(const FieldList& list, const std::string& group, const std::vector<std::string>& groups) {
  const std::string advice = list.find_section(group) != nullptr
                                 ? fmt::format("; for a setting write {}.KEY=VALUE", group)
                                 : or_else(key_elsewhere(list, group), did_you_mean(group, groups));
  return fmt::format("there is no group {}; groups: {}{}", quoted_text(group), fmt::join(groups, ", "), advice);
}

std::string unknown_group_name(const std::string& group, const std::string& name,
                               const std::vector<std::string>& names) {
  return fmt::format("there is no {} {}; known: {}{}", group, quoted_text(name), fmt::join(names, ", "),
                     did_you_mean(name, names));
}

}  // namespace gradmill
