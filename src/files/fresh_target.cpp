// SPDX-License-Identifier: Apache-2.0
#include "files/fresh_target.h"

#include "core/error.h"

namespace gradmill {

namespace fs = std::filesystem;

FreshTarget::FreshTarget(FileOps& ops, const fs::path& name, Kind kind)
    : ops_(ops), name_(fs::absolute(name).lexically_normal()), kind_(kind) {
  if (!name_.has_filename()) name_ = name_.parent_path();  // "folder/"
  std::error_code ignored;
  const bool empty_folder = kind == Kind::folder && fs::is_directory(name_, ignored) && fs::is_empty(name_, ignored);
  if (fs::exists(fs::symlink_status(name_, ignored)) && !empty_folder) {
    throw usage_error(fmt::format("'{}' exists already", name.string()), "choose another name, or remove it first");
  }
  for (fs::path parent = name_.parent_path(); !fs::exists(parent, ignored) && parent.has_relative_path();
       parent = parent.parent_path()) {
    made_.push_back(parent);
  }
  make_folders(name_.parent_path());
  temporary_ = temporary_beside(name_);
  remove_tree(ops_, temporary_);
  if (kind_ == Kind::folder) ops_.make_folder(temporary_);
}

FreshTarget::~FreshTarget() {
  if (published_) return;
  try_remove_tree(ops_, temporary_);
  std::error_code ignored;
  for (const fs::path& parent : made_)
    fs::remove(parent, ignored);  // fails, as it should, if someone else has put
                                  // files there
}

void FreshTarget::publish() {
  if (kind_ == Kind::folder) ops_.sync_folder(temporary_);
  ops_.rename(temporary_, name_);
  published_ = true;
  ops_.sync_folder(name_.parent_path());
}

}  // namespace gradmill
