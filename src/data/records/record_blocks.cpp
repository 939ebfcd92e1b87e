// SPDX-License-Identifier: Apache-2.0
#include "data/records/record_blocks.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/tokens/epoch_order.h"
#include "data/records/record_stream.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnitStream = 0;

int64_t plain_size(const SourceFile& file) {
  std::error_code error;
  if (file.compression != Compression::none || !fs::is_regular_file(file.path, error)) return -1;
  const uintmax_t size = fs::file_size(file.path, error);
  if (error) {
    throw data_error(fmt::format("cannot read '{}': {}", file.path.string(), error.message()), "check the path");
  }
  return static_cast<int64_t>(size);
}

int64_t bytes_of(const Record& record) {
  int64_t bytes = sizeof(Record) + std::ssize(record.file);
  for (const RecordField& field : record.fields())
    bytes += sizeof(field) + std::ssize(field.name) + std::ssize(field.value);
  return bytes;
}

// Counts the line ends in the first bytes of a file.
int64_t count_lines(const SourceFile& file, int64_t num_bytes) {
  int64_t lines = 0;
  const std::unique_ptr<ByteSource> source = open_bytes(file.path, file.compression);
  while (num_bytes > 0) {
    std::string_view bytes = source->next();
    if (bytes.empty()) break;
    bytes = bytes.substr(0, static_cast<size_t>(std::min(num_bytes, std::ssize(bytes))));
    lines += std::ranges::count(bytes, '\n');
    num_bytes -= std::ssize(bytes);
  }
  return lines;
}

}  // namespace

// Cuts the lines of one file into blocks by their start positions.
class RecordBlocks::LineCutter {
 public:
  // Starts with the first line that begins at `offset` or later.
  LineCutter(const SourceFile& file, int64_t offset, int64_t max_line)
      : max_line_(static_cast<size_t>(max_line) + kMarkAndReturn), position_(std::max<int64_t>(offset - 1, 0)) {
    source_ = open_bytes_at(file.path, file.compression, position_);
    if (offset > 0) pass_line();
  }

  // The lines that begin before `end`. A line that is too long is cut, but kept long enough that a LineReader notices
  // it.
  std::string read_until(int64_t end) {
    std::string lines;
    while (position_ < end && refill()) {
      const size_t begin = lines.size();
      bool ended = false;
      while (!ended && refill()) {
        const std::string_view part = take_part(ended);
        const size_t room = max_line_ - std::min(max_line_, lines.size() - begin);
        lines.append(part.substr(0, room));
        if (ended && part.size() > room) lines.push_back('\n');
      }
    }
    return lines;
  }
  bool at_end() { return !refill(); }

 private:
  // Space for a byte order mark, a carriage return, a line end, and one excess byte.
  static constexpr size_t kMarkAndReturn = 6;

  void pass_line() {
    for (bool ended = false; !ended && refill();) take_part(ended);
  }
  std::string_view take_part(bool& ended) {
    const size_t at = chunk_.find('\n');
    ended = at != std::string_view::npos;
    const std::string_view part = chunk_.substr(0, ended ? at + 1 : chunk_.size());
    chunk_.remove_prefix(part.size());
    position_ += std::ssize(part);
    return part;
  }
  bool refill() {
    if (chunk_.empty()) chunk_ = source_->next();
    return !chunk_.empty();
  }

  size_t max_line_;
  std::unique_ptr<ByteSource> source_;
  std::string_view chunk_;
  int64_t position_;  // position of chunk_ in the file
};

// Groups the records of one file by size in bytes.
class RecordBlocks::RecordCutter {
 public:
  RecordCutter(const SourceFile& file, const ReadOptions& options)
      : policy_(options.bad_records), bad_(policy_), reader_(open_records(file, options, bad_)) {
    has_next_ = reader_->next(next_);
  }

  void read(RecordBlock& block, int64_t num_bytes) {
    for (int64_t bytes = 0; has_next_ && bytes < num_bytes; has_next_ = reader_->next(next_)) {
      bytes += bytes_of(next_);
      block.records.push_back(next_);
    }
    block.bad = std::exchange(bad_, BadRecords(policy_));
    block.ends_unit = !has_next_;
  }

 private:
  BadRecordPolicy policy_;
  BadRecords bad_;
  std::unique_ptr<RecordReader> reader_;
  Record next_;
  bool has_next_;
};

int64_t RecordBlock::num_bytes() const {
  int64_t bytes = std::ssize(lines);
  for (const Record& record : records) bytes += bytes_of(record);
  return bytes;
}

BadRecords bad_records_of(const RecordBlock& block, BadRecordPolicy policy) {
  if (block.lines.empty()) return block.bad;
  if (block.offset == 0) return BadRecords(policy);
  // A line that begins before the block and ends in it counts as one of the lines before the block.
  return BadRecords(policy, [file = block.file, offset = block.offset, lines = int64_t{-1}]() mutable {
    if (lines < 0) {
      lines = count_lines(file, offset - 1) + 1;
    }
    return lines;
  });
}

void for_each_record(const RecordBlock& block, const ReadOptions& options, BadRecords& bad,
                     const std::function<void(const Record&)>& visit) {
  for (const Record& record : block.records) visit(record);
  if (block.lines.empty()) return;
  const std::string_view lines = std::string_view(block.lines).substr(0, block.lines.size() - kReadAhead);
  const auto reader = open_records(open_memory(block.file.path, lines), block.file.format, options, bad);
  for (Record record; reader->next(record);) visit(record);
}

RecordBlocks::RecordBlocks(std::vector<SourceFile> files, RecordBlocksOptions options, const BlockPlace& from)
    : files_(std::move(files)), options_(std::move(options)), place_(from) {
  check_read_options(options_.read);
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  if (options_.block_bytes < 1 || options_.block_bytes > kMostBytes) {
    throw usage_error(fmt::format("the bytes of a block are {}", options_.block_bytes),
                      fmt::format("give 1 to {}", kMostBytes));
  }
  for (size_t file = 0; file < files_.size(); ++file) add_units(file);
  order_epoch();
}

RecordBlocks::~RecordBlocks() = default;

bool RecordBlocks::by_lines(const SourceFile& file) const {
  return file.format == RecordFormat::jsonl || (file.format == RecordFormat::text && options_.read.text_lines);
}

void RecordBlocks::add_units(size_t file) {
  sizes_.push_back(plain_size(files_[file]));
  if (!by_lines(files_[file]) || sizes_.back() < 0) return units_.push_back({file, -1});
  const int64_t parts = (sizes_.back() + options_.block_bytes - 1) / options_.block_bytes;
  for (int64_t part = 0; part < parts; ++part) units_.push_back({file, part});
}

void RecordBlocks::order_epoch() {
  if (options_.shuffle) {
    order_ = shuffled(num_units(), options_.seed, place_.epoch, kUnitStream);
  } else {
    order_.resize(units_.size());
    std::iota(order_.begin(), order_.end(), 0);
  }
}

std::optional<RecordBlock> RecordBlocks::next() {
  if (place_.unit >= num_units()) {
    if (!options_.endless || units_.empty()) return std::nullopt;
    place_ = {place_.epoch + 1, 0, 0};
    order_epoch();
  }
  const Unit& unit = units_[static_cast<size_t>(order_[static_cast<size_t>(place_.unit)])];
  try {
    RecordBlock block = read_block(unit);
    block.place = place_;
    ++place_.block;
    if (block.ends_unit) {
      place_ = {place_.epoch, place_.unit + 1, 0};
      lines_.reset();
      records_.reset();
    }
    return block;
  } catch (...) {
    lines_.reset();  // they are in an unknown state
    records_.reset();
    throw;
  }
}

RecordBlock RecordBlocks::read_block(const Unit& unit) {
  RecordBlock block;
  block.file = files_[unit.file];
  if (!by_lines(block.file)) {
    if (records_ == nullptr) {
      records_ = std::make_unique<RecordCutter>(block.file, options_.read);
      for (int64_t passed = 0; passed < place_.block; ++passed) {
        RecordBlock before;
        records_->read(before, options_.block_bytes);
      }
    }
    records_->read(block, options_.block_bytes);
    return block;
  }
  const int64_t part = unit.part < 0 ? place_.block : unit.part;
  block.offset = part * options_.block_bytes;
  if (lines_ == nullptr)
    lines_ = std::make_unique<LineCutter>(block.file, block.offset, options_.read.max_record_bytes);
  block.lines = lines_->read_until(block.offset + options_.block_bytes);
  if (!block.lines.empty()) block.lines.append(kReadAhead, '\0');
  block.ends_unit = unit.part >= 0 || lines_->at_end();
  return block;
}

uint64_t RecordBlocks::fingerprint() const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](std::string_view bytes) {
    for (char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  };
  for (size_t i = 0; i < files_.size(); ++i) {
    add(fmt::format("{}\n{}\n", files_[i].path.filename().string(), sizes_[i]));
  }
  add(fmt::format("{} {} {} {} {}", options_.block_bytes, options_.shuffle, options_.seed, options_.read.text_lines,
                  options_.read.max_record_bytes));
  return hash;
}

}  // namespace gradmill
