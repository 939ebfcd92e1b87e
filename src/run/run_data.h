// SPDX-License-Identifier: Apache-2.0
// RunData: what a run learns from and is judged by, whatever it is made of.
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

// Where a run stands in its data.
struct DataPosition {
  int64_t step = 0;   // the next one
  std::string place;  // what BatchSource::place() said behind the step before; empty where steps say it all
};

// One StepBatch a step.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual StepBatch next() = 0;
  virtual LoaderStats stats() const = 0;
  // Behind the step that next() gave last.
  virtual std::string place() const { return {}; }
};

// Loaders that begin at any step.
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
  // False: no more batches are wanted.
  using UseBatch = std::function<bool(const MicroBatch&)>;

  virtual ~RunData() = default;
  RunData(const RunData&) = delete;  // parts refer to each other
  RunData& operator=(const RunData&) = delete;

  const std::string& name() const { return name_; }
  const std::string& origin() const { return origin_; }
  const std::string& hash() const { return hash_; }  // tells whether the data is still the same
  const RunTokenizer& tokenizer() const { return tokenizer_; }

  // What there is, in a line.
  virtual std::string describe() const = 0;
  // 0 where that cannot be known before.
  virtual int64_t steps_per_epoch() const = 0;
  // Batches from the position on; they depend on nothing else than data, settings and seed. `note` is told what goes
  // wrong without ending the run, by any thread. The source must not outlive this.
  virtual std::unique_ptr<BatchSource> open(const DataPosition& from, const CrewNote& note) const = 0;
  // Batches that cover all there is to validate on, or an even choice of about max_tokens where that is not 0.
  virtual void visit_validation(int64_t max_tokens, const UseBatch& use) = 0;
  // What a sample starts from: never empty, but for data that is no language.
  virtual std::vector<TokenId> prompt() const = 0;

  virtual Task task() const = 0;
  // The configured sizes of batches, with those that only the data knows.
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

// What loading needs beside the settings.
struct RunDataOptions {
  const RunTokenizer* tokenizer = nullptr;    // a checkpoint's, in place of the one the settings name
  const LabelMap* labels = nullptr;           // the same for the classes
  const LabelMap* labels_of_model = nullptr;  // the classes of the model to start from: taken where they fit
  CrewNote note = [](const std::string&) {};
  std::function<bool()> stop_requested = [] { return false; };  // ends a long tokenisation
};

}  // namespace gradmill
