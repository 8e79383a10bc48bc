// Colours of series on light and dark grounds, which most colour-blind readers can tell apart.
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

std::span<const SeriesColour> implementation_colours();

const SeriesColour& colour_of(const ChartSeries& series);
// The CSS class of the series: "c3", "t0", "g1".
std::string colour_class(const ChartSeries& series);
// The CSS rules of these classes, light and dark.
std::string palette_css();

// Returns the colour that a common implementation has in every report, README and docs, or -1 if it
// has none.
int own_colour(std::string_view implementation);

}  // namespace ridgeline
