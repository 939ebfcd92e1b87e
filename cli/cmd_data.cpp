// SPDX-License-Identifier: Apache-2.0
// gradmill data: tokenise data files, and inspect them.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "data/tokens/corpus_tokenizer.h"
#include "data/tokens/inspect.h"
#include "data/tokens/token_cache.h"
#include "data/tokens/tokenize.h"
#include "data/tokens/token_folder.h"
#include "data/records/record_stream.h"
#include "data/labelled/inspect.h"
#include "metrics/format.h"
#include "tokenizer/load_tokenizer.h"
#include "run/instruction_encoding.h"
#include "train/stop_signal.h"

namespace gradmill::cli {
namespace {

struct SourceArgs {
  std::vector<std::string> sources;
  std::string column = "text", eos = "auto";
  bool skip_bad = false, lines = false;

  ReadOptions read() const {
    ReadOptions options;
    options.bad_records = skip_bad ? BadRecordPolicy::skip : BadRecordPolicy::error;
    options.text_lines = lines;
    return options;
  }
};

void add_source_args(CLI::App& app, SourceArgs& args) {
  app.add_option("sources", args.sources, "files, folders or patterns: .jsonl .csv .tsv .txt, also .gz and .zst")
      ->required();
  app.add_option("--text-column", args.column, "column or field that holds the text")->capture_default_str();
  app.add_option("--eos", args.eos, "token that ends a document: auto (the tokenizer's own), none, or its name")
      ->capture_default_str();
  app.add_flag("--skip-bad", args.skip_bad,
               "skip and count records that cannot be used instead of stopping at the first");
  app.add_flag("--lines", args.lines, "treat every line of a .txt file as a document, instead of the whole file");
}

// A progress line that is rewritten in place. Prints nothing unless stderr is a terminal.
class ProgressLine {
 public:
  bool operator()(const TokenizeProgress& progress) {
    constexpr double kInterval = 0.5;
    if (is_terminal_ && progress.seconds >= last_ + kInterval) {
      last_ = progress.seconds;
      fmt::print(stderr, "\r{} records, {} tokens, {} tokens/s \033[K",
                 format_count(static_cast<double>(progress.records)),
                 format_count(static_cast<double>(progress.tokens)),
                 format_count(static_cast<double>(progress.tokens) / progress.seconds));
    }
    return !StopSignal::requested();
  }
  void clear() const {
    if (last_ > 0) fmt::print(stderr, "\r\033[K");
  }

 private:
  bool is_terminal_ = ::isatty(STDERR_FILENO) != 0;
  double last_ = 0;
};

struct TokenizeArgs : SourceArgs {
  std::string tokenizer, out, task = "text";
  int64_t context = 0;
  int threads = -1;
  int64_t shard_tokens = TokenizeOptions{}.shard_tokens;
};

// Encodes records as data.task=instruct does. The shards store which tokens are learned.
RecordEncoding encode_instructions(const TokenizeArgs& args, const std::vector<SourceFile>& files,
                                   const std::shared_ptr<InstructionLog>& log) {
  if (args.context == 0) {
    throw usage_error("--task instruct needs the context of the later training, to cut conversations to it",
                      "give --context");
  }
  check_instruction_files(files);
  return instruction_encoding(open_run_tokenizer(args.tokenizer), args.context, log);
}

int run_tokenize(const TokenizeArgs& args) {
  StopSignal::install();
  ProgressLine line;
  TokenizeOptions options;
  options.read = args.read();
  options.num_threads = args.threads < 0 ? auto_loader_threads() : args.threads;
  options.shard_tokens = args.shard_tokens;
  options.progress = [&](const TokenizeProgress& progress) { return line(progress); };
  options.note = [](const std::string& note) { fmt::print(stderr, "{}\n", note); };
  const std::vector<SourceFile> files = list_sources(args.sources);
  const auto log = std::make_shared<InstructionLog>();
  const RecordEncoding encoding = args.task == "instruct"
                                      ? encode_instructions(args, files, log)
                                      : open_corpus_tokenizer(args.tokenizer).text(args.column, args.eos);
  const TokenizeReport report = tokenize_corpus(files, encoding, args.out, options);
  line.clear();
  for (const std::string& remark : {report.skipped, log->summary()}) {
    if (!remark.empty()) fmt::print(stderr, "{}\n", remark);
  }
  const TokenizeProgress& done = report.progress;
  fmt::print("{}: {} tokens in {} documents, {} shards, {} tokens/s\n", args.out, report.manifest.num_tokens(),
             report.manifest.num_documents(), report.manifest.shards.size(),
             format_count(static_cast<double>(done.tokens) / done.seconds));
  return 0;
}

CLI::App* add_tokenize(CLI::App& app, TokenizeArgs& args) {
  CLI::App* tokenize = app.add_subcommand("tokenize", "tokenise data files into a folder of shards");
  add_source_args(*tokenize, args);
  tokenize->add_option("--tokenizer", args.tokenizer, "a tokenizer.json, a .model, a vocab.txt, or their folder")
      ->required();
  tokenize->add_option("--task", args.task, "what the records are: text, or instruct (conversations, prompts)")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "instruct"}));
  tokenize
      ->add_option("--context", args.context,
                   "with --task instruct: cut conversations to this many tokens; use the model.context of the training")
      ->check(CLI::PositiveNumber);
  tokenize->add_option("--out", args.out, "folder to create")->required();
  tokenize->add_option("--threads", args.threads, "threads to tokenise with; default: all cores but two")
      ->check(CLI::Range(0, 1024));
  tokenize->add_option("--shard-tokens", args.shard_tokens, "approximate tokens per shard")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  return tokenize;
}

struct InspectArgs : SourceArgs {
  InspectOptions inspect;
  bool concatenate = false;
  std::string task = "auto";
};

// Decides by the fields of the first record.
std::string guess_task(const InspectArgs& args) {
  if (args.sources.size() == 1 && is_token_data(args.sources.front())) return "text";
  RecordStream stream(list_sources(args.sources), args.read());
  Record record;
  if (!stream.next(record)) return "text";
  const auto has = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return record.find(name) != nullptr; });
  };
  if (has({"messages", "conversations", "prompt", "instruction", "input_ids", "segments"})) return "instruct";
  if (has({"label", "labels", "score"})) return "labelled";
  return "text";
}

int inspect_labels(const InspectArgs& args) {
  InspectLabelledOptions options{.files = list_sources(args.sources),
                                 .bad_records = args.read().bad_records,
                                 .max_length = args.inspect.pack.context,
                                 .num_samples = args.inspect.num_samples};
  if (!args.inspect.tokenizer.empty()) options.tokenizer = load_tokenizer(args.inspect.tokenizer);
  fmt::print("{}", inspect_labelled(options));
  return 0;
}

int run_inspect(InspectArgs args) {
  if (args.task == "auto") args.task = guess_task(args);
  if (args.task == "labelled") return inspect_labels(args);
  const auto log = std::make_shared<InstructionLog>();
  if (args.task == "instruct") {
    if (args.inspect.tokenizer.empty()) throw usage_error("instructions need a tokenizer", "give --tokenizer");
    args.inspect.encoding =
        instruction_encoding(open_run_tokenizer(args.inspect.tokenizer), args.inspect.pack.context, log);
  }
  args.inspect.sources = args.sources;
  args.inspect.column = args.column;
  args.inspect.eos = args.eos;
  args.inspect.read = args.read();
  if (args.concatenate) args.inspect.pack.mode = PackMode::concatenated;
  fmt::print("{}", inspect_data(args.inspect));
  if (const std::string noticed = log->summary(); !noticed.empty()) fmt::print("\n{}\n", noticed);
  return 0;
}

void add_inspect(CLI::App& app, InspectArgs& args) {
  CLI::App* inspect = app.add_subcommand("inspect", "show counts, lengths, samples, and the steps of an epoch");
  add_source_args(*inspect, args);
  inspect->add_option("--tokenizer", args.inspect.tokenizer,
                      "with a tokenizer, tokens are counted and rows shown as the model sees them");
  inspect->add_option("--task", args.task, "what the records are: text, instruct (conversations, prompts), labelled")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "text", "instruct", "labelled"}));
  inspect->add_option("--context", args.inspect.pack.context, "tokens per row")->capture_default_str();
  inspect->add_option("--batch-size", args.inspect.batch_size, "rows per step")->capture_default_str();
  inspect->add_flag("--concatenate", args.concatenate,
                    "put documents one after the other instead of packing whole ones into rows");
  inspect->add_option("--limit", args.inspect.max_documents, "documents to inspect (0: all)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  inspect->add_option("--samples", args.inspect.num_samples, "rows or documents to show")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
}

}  // namespace

Run add_data(CLI::App& app) {
  const auto tokenize_args = std::make_shared<TokenizeArgs>();
  const auto inspect_args = std::make_shared<InspectArgs>();
  app.require_subcommand(1);
  const CLI::App* tokenize = add_tokenize(app, *tokenize_args);
  add_inspect(app, *inspect_args);
  return [=] { return tokenize->parsed() ? run_tokenize(*tokenize_args) : run_inspect(*inspect_args); };
}

}  // namespace gradmill::cli
