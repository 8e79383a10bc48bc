// A product of few rows, and nothing before or behind it.
#define MERGED_KERNEL few_rows
#define PREPARES 0
#define PAIRS 0
#include "few_rows.cuh"
