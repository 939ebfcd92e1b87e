// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/encode_batch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace gradmill {

std::vector<Encoding> encode_batch(const Tokenizer& tokenizer, std::span<const std::string_view> texts, int num_threads,
                                   const EncodeOptions& options) {
  constexpr size_t kTextsAtOnce = 64;
  std::vector<Encoding> results(texts.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (size_t begin = next.fetch_add(kTextsAtOnce); begin < texts.size(); begin = next.fetch_add(kTextsAtOnce)) {
        const size_t end = std::min(begin + kTextsAtOnce, texts.size());
        for (size_t i = begin; i < end; ++i) results[i] = tokenizer.encode(texts[i], options);
      }
    } catch (...) {
      next = texts.size();
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < num_threads; ++i) threads.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
  return results;
}

}  // namespace gradmill
