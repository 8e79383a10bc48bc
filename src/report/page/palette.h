// Colours of series, on paper and on a dark screen; told apart by most colour-blind readers.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ridgeline {

struct SeriesColour {
  std::string_view light;
  std::string_view dark;
};

// The first is the ordinary one; each further one steps back behind the one before.
inline constexpr std::array<SeriesColour, 4> kGreys = {{{"#6b7280", "#9aa3af"},
                                                        {"#979ea9", "#78818c"},
                                                        {"#b3b9c2", "#616973"},
                                                        {"#cbd0d7", "#4d545d"}}};
inline constexpr std::array<SeriesColour, 9> kPalette = {{{"#b4530a", "#f2a65a"},
                                                          {"#1d5fa8", "#6db1f2"},
                                                          {"#0f7b5f", "#4fd0a5"},
                                                          {"#8a3d8f", "#d996dd"},
                                                          {"#a3820a", "#e6cf5c"},
                                                          {"#b3305a", "#f08aa9"},
                                                          {"#4c5560", "#b6bfca"},
                                                          {"#3f7d1e", "#9bd66f"},
                                                          {"#5a4fcf", "#a9a2ff"}}};

inline const SeriesColour& series_colour(int index) {
  if (index < 0) return kGreys[std::min(static_cast<size_t>(-(index + 1)), kGreys.size() - 1)];
  return kPalette[static_cast<size_t>(index) % kPalette.size()];
}

}  // namespace ridgeline
