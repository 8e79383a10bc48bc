// Escapes text for HTML, and JSON for a script element.
#pragma once

#include <string>
#include <string_view>

namespace ridgeline {

// For text and quoted attributes. Control characters other than tab and newline become U+FFFD.
std::string html_escape(std::string_view text);

// Escapes JSON so that nothing in it can end the script element or a line.
std::string script_safe_json(std::string_view json);

}  // namespace ridgeline
