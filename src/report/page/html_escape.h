// Text made safe for the place it goes to: HTML, and JSON inside a script element.
#pragma once

#include <string>
#include <string_view>

namespace ridgeline {

// For text and for attributes in quotes. Control characters but tab and newline become U+FFFD.
std::string html_escape(std::string_view text);

// JSON text as the content of a script element: nothing in it can end the element or the line.
std::string script_safe_json(std::string_view json);

}  // namespace ridgeline
