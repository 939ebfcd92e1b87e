// SPDX-License-Identifier: Apache-2.0
#include "run/token_source.h"

#include <algorithm>

#include "core/error.h"
#include "data/tokens/token_cache.h"
#include "files/sha256.h"
#include "metrics/format.h"
#include "run/class_settings.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

bool are_shards(const std::vector<std::string>& entries) {
  return !entries.empty() && std::ranges::all_of(entries, [](const auto& entry) { return is_token_data(entry); });
}

fs::path cache_folder(const DataConfig& config) {
  if (!config.cache.empty()) return config.cache;
  if (const std::optional<fs::path> folder = default_token_cache()) return *folder;
  throw usage_error("there is no home folder for tokenised data", "set data.cache, or use data.streaming=true");
}

std::string count(int64_t number) { return format_count(static_cast<double>(number)); }

}  // namespace

TokenSource::TokenSource(const RunConfig& config, const RunTokenizer& tokenizer)
    : config_(config.data), tokenizer_(tokenizer), log_(std::make_shared<InstructionLog>()) {
  encoding_ = config_.kind() == TaskKind::instruct ? instruction_encoding(tokenizer, config.model.context, log_)
              : config_.kind() == TaskKind::mask   ? tokenizer.whole_text(config_.column)
                                                   : tokenizer.text(config_.column, config_.eos);
}

std::vector<SourceFile> TokenSource::files(const std::string& paths) const {
  std::vector<SourceFile> files = list_sources(split_paths(paths));
  if (config_.kind() == TaskKind::instruct) check_instruction_files(files);
  return files;
}

ReadOptions TokenSource::read_options() const {
  ReadOptions options;
  options.bad_records = config_.bad_records == "skip" ? BadRecordPolicy::skip : BadRecordPolicy::error;
  options.text_lines = config_.lines;
  return options;
}

void TokenSource::check(const std::string& paths) const {
  const std::vector<std::string> entries = split_paths(paths);
  if (are_shards(entries)) {
    open_ready(entries);
  } else {
    files(paths);
  }
}

OpenShards TokenSource::shards(const std::string& paths, const RunDataOptions& options) const {
  const std::vector<std::string> entries = split_paths(paths);
  if (are_shards(entries)) return open_ready(entries);
  TokenizeOptions tokenize;
  tokenize.read = read_options();
  tokenize.num_threads = num_loader_threads(config_);
  tokenize.note = options.note;
  tokenize.progress = [&](const TokenizeProgress&) { return !options.stop_requested(); };
  const CachedTokens tokens = cached_tokens(cache_folder(config_), files(paths), encoding_, tokenize);
  if (!tokens.was_there) {
    const TokenizeProgress& done = tokens.report.progress;
    options.note(fmt::format("tokenised {}: {} tokens from {} records in {:.1f} s, stored in {}", paths,
                             count(done.tokens), count(done.records), done.seconds, tokens.folder.string()));
    for (const std::string& remark : {tokens.report.skipped, remarks()}) {
      if (!remark.empty()) options.note(remark);
    }
  }
  return {std::make_shared<ShardSet>(list_token_shards(tokens.folder)), tokens.folder.string(),
          tokens.folder.filename().string()};
}

OpenShards TokenSource::open_ready(const std::vector<std::string>& folders) const {
  std::vector<fs::path> paths;
  for (const std::string& folder : folders) {
    for (fs::path& path : list_token_shards(folder)) paths.push_back(std::move(path));
  }
  OpenShards result{std::make_shared<ShardSet>(paths), "token shards", {}};
  if (result.shards->vocab() != encoding_.vocab) {
    throw data_error(fmt::format("the shards in '{}' were not made with this tokenizer: its vocabulary of {} differs "
                                 "from theirs of {}",
                                 folders.front(), encoding_.vocab.size, result.shards->vocab().size),
                     "name the tokenizer that made them as data.tokenizer");
  }
  if (encoding_.has_learned && !result.shards->has_learned_plane()) {
    throw data_error(fmt::format("the shards in '{}' do not mark which tokens are answers", folders.front()),
                     "make them with 'gradmill data tokenize --task instruct', or use data.task=text");
  }
  Sha256 hash;
  hash.add(fmt::format("{} {}\n", result.shards->vocab().hash, result.shards->num_documents()));
  for (const fs::path& path : paths) hash.add(fmt::format("{} {}\n", path.filename().string(), fs::file_size(path)));
  result.hash = hash.hex();
  return result;
}

}  // namespace gradmill
