// SPDX-License-Identifier: Apache-2.0
#include "hf/fresh_target.h"

#include <unistd.h>

#include "core/error.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

fs::path without_trailing_slash(const fs::path& name) { return name.has_filename() ? name : name.parent_path(); }

fs::path folder_of(const fs::path& name) { return name.has_parent_path() ? name.parent_path() : fs::path("."); }

}  // namespace

FreshTarget::FreshTarget(FileOps& ops, const fs::path& name, Kind kind)
    : ops_(ops), name_(without_trailing_slash(name)), kind_(kind) {
  std::error_code ignored;
  const bool empty_folder = kind == Kind::folder && fs::is_directory(name_, ignored) && fs::is_empty(name_, ignored);
  if (name_.empty() || (fs::exists(fs::symlink_status(name_, ignored)) && !empty_folder)) {
    throw usage_error(fmt::format("'{}' exists already", name.string()), "choose another name, or remove it first");
  }
  if (!fs::is_directory(folder_of(name_), ignored)) {
    throw usage_error(fmt::format("the folder '{}' does not exist", folder_of(name_).string()), "make it first");
  }
  temporary_ = folder_of(name_) / fmt::format(".tmp-{}-{}", name_.filename().string(), ::getpid());
  try_remove_tree(ops_, temporary_);
  if (kind_ == Kind::folder) ops_.make_folder(temporary_);
}

FreshTarget::~FreshTarget() {
  if (!published_) try_remove_tree(ops_, temporary_);
}

void FreshTarget::publish() {
  if (kind_ == Kind::folder) ops_.sync_folder(temporary_);
  ops_.rename(temporary_, name_);
  published_ = true;
  ops_.sync_folder(folder_of(name_));
}

}  // namespace gradmill
