// Attention over a cache that others have filled.
#define MERGED_KERNEL cached_attention
#define PREPARES 0
#include "cached_attention_kernel.cuh"
