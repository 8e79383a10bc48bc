// Whether this process is a copy, made by fork(), of the one that made something: threads and GPU
// contexts do not come along.
#pragma once

namespace ridgeline {

// How many forks lie between the first call and this process.
int fork_count();

}  // namespace ridgeline
