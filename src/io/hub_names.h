// Names that come from users and hubs: what is accepted before it becomes part of a path or a URL.
#pragma once

#include <string>
#include <string_view>

namespace mlxcel::io {

/// A branch, tag or commit: letters, digits, '.', '_', '-' and '/', no empty, "." or ".." part.
/// Throws InvalidArgument otherwise.
void check_revision(std::string_view revision);

/// A relative file name of a repository: no empty, "." or ".." part, no backslash, no control
/// character, not absolute. Throws InvalidArgument naming the repository otherwise.
void check_repo_file_name(std::string_view name, std::string_view repo_id);

/// Percent-encodes everything but unreserved characters and '/'.
std::string url_path(std::string_view text);

/// `url` without user name, password, query and fragment: credentials and signed links are secrets.
std::string url_for_messages(std::string_view url);

/// "owner/name" of a name without a slash: the owner is MLXCEL_DEFAULT_ORG, else mlx-community.
std::string with_default_org(std::string_view name);

/// True for a file that models are made of, by its extension: weights, configurations, tokenizers
/// and templates.
bool is_model_file(std::string_view name);

}  // namespace mlxcel::io
