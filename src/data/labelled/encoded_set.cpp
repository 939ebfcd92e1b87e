// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/encoded_set.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "core/error.h"

namespace gradmill {
namespace {

// Large enough that taking the next batch of texts costs nothing, and small enough that all threads stay busy until the
// end.
constexpr size_t kTextsAtOnce = 64;

struct EncodedTexts {
  std::vector<TokenId> ids;
  std::vector<size_t> lengths;
};

// Calls task(i) for i in [0, count) on several threads. Of the exceptions, throws that of the smallest i.
template <class Task>
void run_tasks(size_t count, int num_threads, Task&& task) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t failed = count;
  std::exception_ptr failure;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
        next = count;  // earlier tasks have already been taken
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < num_threads && static_cast<size_t>(i) < count; ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

EncodedSet::EncodedSet(const LabelledSet& set, const Tokenizer& tokenizer, const SequenceTemplate& form,
                       const EncodeSetOptions& options)
    : set_(set), tokenizer_(tokenizer), form_(form), options_(options) {
  const int64_t added = form.num_added(set.pairs), limit = options.truncation.max_length;
  if (limit < 0 || (limit > 0 && limit <= added)) {
    throw usage_error(fmt::format("the length of a sequence is limited to {} tokens", limit),
                      fmt::format("give more than the {} that are added to every text, or 0 for no limit", added));
  }
  encode_all(std::clamp(options.num_threads, 1, 1024));
  for (int32_t i = 0; i < set.size(); ++i) {
    if (full_length(i) > 0) continue;
    throw data_error(fmt::format("{}: a text without a token", set.where(example(i))), "write something, or remove it");
  }
}

void EncodedSet::encode_all(int num_threads) {
  const size_t count = set_.examples.size(), num_tasks = (count + kTextsAtOnce - 1) / kTextsAtOnce;
  std::vector<EncodedTexts> parts(num_tasks);
  run_tasks(num_tasks, num_threads, [&](size_t task) {
    EncodedTexts& part = parts[task];
    const auto add = [&](const std::string& text) {
      const std::vector<TokenId> ids = tokenizer_.encode(text, {.parse_special = options_.parse_special}).ids;
      part.ids.insert(part.ids.end(), ids.begin(), ids.end());
      part.lengths.push_back(ids.size());
    };
    for (size_t i = task * kTextsAtOnce; i < std::min(count, (task + 1) * kTextsAtOnce); ++i) {
      const LabelledExample& example = set_.examples[i];
      try {
        add(example.first);
        add(set_.pairs ? example.second : "");
      } catch (const Error& error) {
        throw data_error(fmt::format("{}: {}", set_.where(example), error.what()), "");
      }
    }
  });
  size_t total = 0;
  for (const EncodedTexts& part : parts) total += part.ids.size();
  ids_.reserve(total);
  begin_.reserve(2 * count + 1);
  for (EncodedTexts& part : parts) {
    ids_.insert(ids_.end(), part.ids.begin(), part.ids.end());
    for (const size_t length : part.lengths) begin_.push_back(begin_.back() + length);
    part = {};
  }
}

int64_t EncodedSet::full_length(int32_t index) const {
  return std::ssize(first(index)) + std::ssize(second(index)) + form_.num_added(set_.pairs);
}

int64_t EncodedSet::length(int32_t index) const {
  const int64_t full = full_length(index), limit = options_.truncation.max_length;
  return limit > 0 ? std::min(full, limit) : full;
}

Sequence EncodedSet::sequence(int32_t index) const {
  return set_.pairs ? form_.build(first(index), second(index), options_.truncation)
                    : form_.build(first(index), options_.truncation);
}

Sequence EncodedSet::sequence_of(std::string_view first, std::string_view second) const {
  const EncodeOptions encoding{.parse_special = options_.parse_special};
  const std::vector<TokenId> ids = tokenizer_.encode(first, encoding).ids;
  if (!set_.pairs) return form_.build(ids, options_.truncation);
  return form_.build(ids, tokenizer_.encode(second, encoding).ids, options_.truncation);
}

}  // namespace gradmill
