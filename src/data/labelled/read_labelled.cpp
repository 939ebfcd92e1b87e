// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/read_labelled.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "core/error.h"
#include "data/labelled/raw_labels.h"
#include "data/records/bad_records.h"
#include "data/records/record_stream.h"

namespace gradmill {
namespace {

ReadOptions read_options(const LabelledOptions& options) {
  return {.bad_records = options.bad_records,
          .max_record_bytes = options.max_record_bytes,
          .tsv_quotes = options.tsv_quotes};
}

// A line of JSON may lack a field, so several records are inspected.
constexpr int kRecordsForColumns = 100;

Columns find_columns(std::span<const SourceFile> files, const LabelledOptions& options) {
  for (const SourceFile& file : files) {
    // The file is read twice. If it does not exist, the reader reports it.
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file.path, ignored) || !std::filesystem::exists(file.path, ignored)) continue;
    throw data_error(fmt::format("'{}' is not a regular file", file.path.string()), "write it to a file first");
  }
  RecordStream stream({files.begin(), files.end()}, read_options(options));
  std::vector<std::string> names;
  std::string where;
  Record record;
  for (int i = 0; i < kRecordsForColumns && stream.next(record); ++i) {
    if (i == 0) where = fmt::format("'{}' line {}", record.file, record.line);
    for (const RecordField& field : record.fields()) {
      if (names.size() < kMaxRecordFields && std::ranges::find(names, field.name) == names.end()) {
        names.push_back(field.name);
      }
    }
  }
  if (where.empty()) {
    const std::string more = files.size() > 1 ? fmt::format(" and {} more", files.size() - 1) : "";
    const std::string skipped = stream.bad_records().summary();
    throw data_error(fmt::format("'{}'{}: no examples", files.front().path.string(), more),
                     skipped.empty() ? "give a file with records" : skipped);
  }
  return choose_columns(names, options.columns, options.require_labels, where);
}

class SetReader {
 public:
  SetReader(std::span<const SourceFile> files, const LabelledOptions& options)
      : options_(options), unusable_(options.bad_records) {
    set_.columns = find_columns(files, options);
    set_.pairs = !set_.columns.second.empty();
    ReadOptions reading = read_options(options);
    // Labels are optional here, because an empty label in a table means the same as a missing field in a line of JSON.
    reading.fields = {{set_.columns.first}};
    if (set_.pairs) reading.fields.push_back({set_.columns.second});
    if (!set_.columns.group.empty()) reading.fields.push_back({set_.columns.group});
    if (!set_.columns.label.empty()) reading.fields.push_back({set_.columns.label, false});
    RecordStream stream({files.begin(), files.end()}, reading);
    for (Record record; stream.next(record);) take(record);
    finish_labels();
    note_skipped(stream.bad_records());
  }

  LabelledSet result() && { return std::move(set_); }

 private:
  void take(const Record& record) {
    if (set_.files.empty() || set_.files.back() != record.file) set_.files.push_back(record.file);
    for (const RecordField& field : record.fields()) {
      if (!field.is_json || !(field.value.starts_with('{') || field.value.starts_with('['))) continue;
      unusable_.report(BadRecord::malformed, record.file, record.line,
                       fmt::format("{} is a list or an object", shown_name(field.name)));
      return;
    }
    LabelledExample& example = set_.examples.emplace_back();
    example.first = record.find(set_.columns.first)->value;
    if (set_.pairs) example.second = record.find(set_.columns.second)->value;
    if (!set_.columns.group.empty()) example.group = group_of(record.find(set_.columns.group)->value);
    example.file = static_cast<int32_t>(set_.files.size()) - 1;
    example.line = record.line;
    const RecordField* const label = set_.columns.label.empty() ? nullptr : record.find(set_.columns.label);
    raw_.push_back(label == nullptr ? "" : label->value);
    num_bytes_ += static_cast<int64_t>(sizeof(LabelledExample) + sizeof(std::string)) + std::ssize(example.first) +
                  std::ssize(example.second) + std::ssize(raw_.back());
    check_size(record);
  }

  int32_t group_of(const std::string& name) {
    const auto [at, is_new] = groups_.try_emplace(name, static_cast<int32_t>(groups_.size()));
    if (is_new) num_bytes_ += static_cast<int64_t>(sizeof(*at)) + std::ssize(name);
    return at->second;
  }

  void check_size(const Record& record) const {
    const bool too_many = set_.size() > std::numeric_limits<int32_t>::max();
    if (num_bytes_ <= options_.max_memory && !too_many) return;
    const std::string what = too_many ? "2^31 examples" : fmt::format("{} bytes of examples", options_.max_memory);
    throw data_error(
        fmt::format("'{}' line {}: more than {}, and all are kept in memory", record.file, record.line, what),
        "use fewer examples, or raise the limit");
  }

  void finish_labels() {
    // There may be no examples because every record was skipped.
    if (set_.examples.empty()) return;
    std::vector<bool> keep(set_.examples.size(), true);
    for (const LabelProblem& problem : resolve_labels(set_, raw_, options_)) {
      const LabelledExample& example = set_.examples[static_cast<size_t>(problem.example)];
      unusable_.report(problem.missing ? BadRecord::missing_field : BadRecord::malformed,
                       set_.files[static_cast<size_t>(example.file)], example.line, problem.what);
      keep[static_cast<size_t>(problem.example)] = false;
    }
    size_t kept = 0;
    for (size_t i = 0; i < keep.size(); ++i) {
      if (!keep[i]) continue;
      if (kept != i) set_.examples[kept] = std::move(set_.examples[i]);
      ++kept;
    }
    set_.examples.resize(kept);
    set_.num_groups = static_cast<int64_t>(groups_.size());
  }

  void note_skipped(const BadRecords& unreadable) {
    set_.num_skipped = unreadable.num_skipped() + unusable_.num_skipped();
    const std::string first = unreadable.summary(), second = unusable_.summary();
    set_.skipped = first + (first.empty() || second.empty() ? "" : "; ") + second;
    if (set_.examples.empty()) throw data_error("every record was bad", set_.skipped);
  }

  const LabelledOptions& options_;
  BadRecords unusable_;  // readable records that do not make an example
  LabelledSet set_;
  std::vector<std::string> raw_;  // the label of every example as spelled in the file
  std::unordered_map<std::string, int32_t> groups_;
  int64_t num_bytes_ = 0;
};

}  // namespace

LabelledSet read_labelled(std::span<const SourceFile> files, const LabelledOptions& options) {
  if (files.empty()) throw data_error("no data files", "give at least one");
  return SetReader(files, options).result();
}

}  // namespace gradmill
