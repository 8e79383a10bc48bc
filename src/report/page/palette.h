// Colours of series, on paper and on a dark screen; told apart by most colour-blind readers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/page/document.h"

namespace ridgeline {

struct SeriesColour {
  std::string_view light;
  std::string_view dark;
};

// Of implementations; of tensors and kinds of work, which are never confused with them.
std::span<const SeriesColour> implementation_colours();
std::span<const SeriesColour> tensor_colours();

const SeriesColour& colour_of(const ChartSeries& series);
// "c3", "t0", "g1": the class of its marks in a page.
std::string colour_class(const ChartSeries& series);
// The rules of a page for these classes, light and dark.
std::string palette_css();

// The colour that names which are often side by side have in every report, in README and docs; -1:
// any that is left.
int own_colour(std::string_view implementation);

}  // namespace ridgeline
