// SPDX-License-Identifier: Apache-2.0
// Messages about a section, key or group that does not exist: which ones do, and which was probably meant.
#pragma once

#include <string>
#include <vector>

#include "config/field.h"

namespace gradmill {

std::string unknown_section(const FieldList& list, const std::string& section);
std::string unknown_key(const FieldList& list, const std::string& section, const std::string& key);
std::string unknown_group(const FieldList& list, const std::string& group, const std::vector<std::string>& groups);
std::string unknown_group_name(const std::string& group, const std::string& name,
                               const std::vector<std::string>& names);

std::vector<std::string> keys_of(const FieldList& list, const std::string& section);

}  // namespace gradmill
