// SPDX-License-Identifier: Apache-2.0
// RunData: the training and validation data of a run, of any kind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/batch.h"
#include "data/prefetcher.h"
#include "run/run_tokenizer.h"
#include "run/task.h"
#include "session/batch_shape.h"

namespace gradmill {

// The position of a run in its data.
struct DataPosition {
  int64_t step = 0;   // the next step
  std::string place;  // BatchSource::place() after the previous step; empty if the step is enough
};

// Gives one StepBatch per step.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual StepBatch next() = 0;
  virtual LoaderStats stats() const = 0;
  // The place after the step that next() returned last.
  virtual std::string place() const { return {}; }
};

// For loaders that can start at any step.
template <class Loader>
class StepSource final : public BatchSource {
 public:
  template <class... Arguments>
  explicit StepSource(Arguments&&... arguments) : loader_(std::forward<Arguments>(arguments)...) {}
  StepBatch next() override { return loader_.next(); }
  LoaderStats stats() const override { return loader_.stats(); }

 private:
  Loader loader_;
};

class RunData {
 public:
  // Returns false if no more batches are wanted.
  using UseBatch = std::function<bool(const MicroBatch&)>;

  virtual ~RunData() = default;
  RunData(const RunData&) = delete;  // parts refer to each other
  RunData& operator=(const RunData&) = delete;

  const std::string& name() const { return name_; }
  const std::string& origin() const { return origin_; }
  const std::string& hash() const { return hash_; }  // shows whether the data is still the same
  const RunTokenizer& tokenizer() const { return tokenizer_; }

  // Describes the data in a line.
  virtual std::string describe() const = 0;
  // 0 if it cannot be known in advance.
  virtual int64_t steps_per_epoch() const = 0;
  // Batches from this position onwards. They depend only on data, settings and seed. Any thread may call `note` about
  // problems that do not end the run. The source must not outlive this object.
  virtual std::unique_ptr<BatchSource> open(const DataPosition& from, const CrewNote& note) const = 0;
  // Visits batches of all validation data, or of an evenly spaced part of about max_tokens if that is not 0.
  virtual void visit_validation(int64_t max_tokens, const UseBatch& use) const = 0;
  // The prompt of a sample; only empty if the model does not generate text.
  virtual std::vector<TokenId> prompt() const = 0;

  virtual Task task() const = 0;
  // The configured batch sizes, completed by those that only the data knows.
  virtual BatchShape shape(const BatchShape& configured) const { return configured; }

 protected:
  RunData(std::string name, RunTokenizer tokenizer) : name_(std::move(name)), tokenizer_(std::move(tokenizer)) {}

  std::string name_, origin_, hash_;
  RunTokenizer tokenizer_;
};

// Running text, whose batches others may change (MaskedData).
class TextData : public RunData {
 public:
  std::unique_ptr<BatchSource> open(const DataPosition& from, const CrewNote& note) const final {
    return open_edited(from, note, {});
  }
  // As open(); `edit` may be empty. The step's targets are counted after it.
  virtual std::unique_ptr<BatchSource> open_edited(const DataPosition& from, const CrewNote& note,
                                                   EditBatch edit) const = 0;

 protected:
  using RunData::RunData;
};

// What loading needs besides the settings.
struct RunDataOptions {
  const RunTokenizer* tokenizer = nullptr;    // a checkpoint's, instead of the one in the settings
  const LabelMap* labels = nullptr;           // likewise for the classes
  const LabelMap* labels_of_model = nullptr;  // the classes of the model to start from, used if they fit
  CrewNote note = [](const std::string&) {};
  std::function<bool()> stop_requested = [] { return false; };  // ends a long tokenisation
  int64_t rank = 0, num_ranks = 1;                              // which part of each step this process loads
};

}  // namespace gradmill
