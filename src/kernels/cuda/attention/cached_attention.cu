// Attention over a cache: a block has up to ROWS queries of heads that share keys and values, and one split of the
// positions that they see. The position is read from device memory, so that one launch serves every position; blocks of
// splits beyond what the cache holds return at once.
//
// With CLUSTER, the blocks of all splits are a cluster and combine their results here, through distributed shared
// memory; otherwise cached_attention_parts.cu does that. A team of LANES threads holds a key or a value. Each team has
// a softmax of its own; the teams are combined at the end.
//
// Constants: TYPE, WIDTH (of a head), PACK (adjacent elements of a thread), LANES, ROWS, UNROLL (keys that a team loads
// at once), CLUSTER (blocks of a cluster; 0: none), THREADS.
#include "cached_attention.cuh"
#include "cluster.cuh"

namespace ridgeline {

constexpr int kChunks = (WIDTH + LANES * PACK - 1) / (LANES * PACK);
constexpr int kElements = kChunks * PACK;  // elements of a row that a thread holds
constexpr int kTeams = THREADS / LANES, kWarps = THREADS / 32;
constexpr float kLog2E = 1.44269504f;

using Vector = Pack<TYPE, PACK>;

// The softmax of a team. Scores are exponents of 2.
struct Team {
  float largest[ROWS], total[ROWS], sums[ROWS][kElements];
};

// The maximum of two softmaxes, and the factors that rescale each of them to it.
struct Joined {
  float largest, mine, other;
};
__device__ __forceinline__ Joined join(float mine, float other) {
  const float largest = fmaxf(mine, other);
  const float base = largest == -infinity() ? 0.0f : largest;
  return {largest, exp2f(mine - base), exp2f(other - base)};
}

__device__ __forceinline__ void load_row(const TYPE* row, int64 column_step, int lane,
                                         Vector (&to)[kChunks]) {
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int column = (chunk * LANES + lane) * PACK;
    if (column < WIDTH) to[chunk] = load_pack<PACK>(row + column * column_step);
  }
}

__device__ __forceinline__ void clear(Vector (&row)[kChunks]) {
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) row[chunk].word = {};
}

// Returns the sum over the threads of a team.
__device__ __forceinline__ float fold_team(float value) {
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

// Combines the teams of a warp: all of them get the result.
__device__ __forceinline__ void join_warp(Team& team) {
#pragma unroll
  for (int distance = LANES; distance < 32; distance *= 2)
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const float other = __shfl_xor_sync(0xffffffffu, team.largest[r], distance);
      const Joined joined = join(team.largest[r], other);
      team.largest[r] = joined.largest;
      team.total[r] = team.total[r] * joined.mine +
                      __shfl_xor_sync(0xffffffffu, team.total[r], distance) * joined.other;
#pragma unroll
      for (int i = 0; i < kElements; ++i)
        team.sums[r][i] = team.sums[r][i] * joined.mine +
                          __shfl_xor_sync(0xffffffffu, team.sums[r][i], distance) * joined.other;
    }
}

#if CLUSTER
// Combines the blocks of a cluster, each a share of the elements. Blocks without keys have a total of 0.
__device__ __forceinline__ void join_cluster(const CachedAttentionParams& p, const CachedTile& tile,
                                             const float (&largest)[ROWS], const float (&total)[ROWS],
                                             const float (&sums)[ROWS][WIDTH]) {
  cluster_sync();
  constexpr int kShare = (ROWS * WIDTH + CLUSTER - 1) / CLUSTER;
  const int first = static_cast<int>(blockIdx.y) * kShare;
  for (int item = first + threadIdx.x; item < min(first + kShare, ROWS * WIDTH); item += THREADS) {
    const int r = item / WIDTH, column = item - r * WIDTH, row = tile.first_row + r;
    if (row >= p.rows) break;
    float of_block[CLUSTER], totals[CLUSTER], values[CLUSTER], most = -infinity();
#pragma unroll
    for (int i = 0; i < CLUSTER; ++i) {
      of_block[i] = load_distributed(&largest[r], i);
      totals[i] = load_distributed(&total[r], i);
      values[i] = load_distributed(&sums[r][column], i);
      most = fmaxf(most, of_block[i]);
    }
    const float base = most == -infinity() ? 0.0f : most;
    float all = 0.0f, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CLUSTER; ++i) {
      const float factor = exp2f(of_block[i] - base);
      all += factor * totals[i];
      sum += totals[i] == 0.0f ? 0.0f : factor * values[i];
    }
    write_result<TYPE>(p, tile, row, column, most, all, sum);
  }
  cluster_sync();  // no block exits before the others have read its shared memory
}
#endif

extern "C" __global__ void
#if CLUSTER
    __cluster_dims__(1, CLUSTER, 1)
#endif
    __launch_bounds__(THREADS) cached_attention(const __grid_constant__ CachedAttentionParams p) {
  wait_for_earlier_kernels();
  __shared__ float shared_largest[kWarps][ROWS], shared_total[kWarps][ROWS];
  __shared__ float shared_sums[kWarps][ROWS][WIDTH];
  const CachedTile tile(p, blockIdx.x);
  const int position = *p.position;
  const int newest = position + p.queries - 1;
  const CachedTile::Span span = tile.span(p, position);
  const int first = span.begin + static_cast<int>(blockIdx.y) * span.of_split;
  const int last = min(span.end, first + span.of_split);
  float* stats = p.stats + (static_cast<int64>(blockIdx.x) * p.splits + blockIdx.y) * ROWS * 2;
#if CLUSTER
  __shared__ float joined_largest[ROWS], joined_total[ROWS];
  if (first >= last) {
    if (threadIdx.x < ROWS) joined_largest[threadIdx.x] = -infinity(), joined_total[threadIdx.x] = 0.0f;
    return join_cluster(p, tile, joined_largest, joined_total, shared_sums[0]);
  }
#endif
  if (first >= last && p.splits > 1) return;  // its part is never read

  const int lane = threadIdx.x % LANES, team_number = threadIdx.x / LANES;
  float queries[ROWS][kElements];
  int oldest[ROWS], own[ROWS];  // the positions that a row sees: [oldest, own]
  Team team;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = min(tile.first_row + r, p.rows - 1), query = row / p.group;
    const TYPE* q = static_cast<const TYPE*>(p.q.data) + tile.offset(p, p.q, row);
    own[r] = position + query;
    oldest[r] = tile.oldest(p, position, newest, query);
    team.largest[r] = -infinity();
    team.total[r] = 0.0f;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int column = (i / PACK * LANES + lane) * PACK + i % PACK;
      queries[r][i] = column < WIDTH ? widen(q[column * p.q.column]) * (p.scale * kLog2E) : 0.0f;
      team.sums[r][i] = 0.0f;
    }
  }

  const TYPE* keys =
      static_cast<const TYPE*>(p.k.data) + tile.batch * p.k.batch + tile.key_head * p.k.head;
  const TYPE* values =
      static_cast<const TYPE*>(p.v.data) + tile.batch * p.v.batch + tile.key_head * p.v.head;
  for (int at = first; at < last; at += kTeams * UNROLL) {
    Vector key[UNROLL][kChunks], value[UNROLL][kChunks];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int mine = at + u * kTeams + team_number;
      clear(key[u]);
      clear(value[u]);
      if (mine >= last) continue;
      const int64 slot = static_cast<unsigned>(mine) % static_cast<unsigned>(p.slots);
      load_row(keys + slot * p.k.row, p.k.column, lane, key[u]);
      load_row(values + slot * p.v.row, p.v.column, lane, value[u]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      float scores[UNROLL], largest = team.largest[r];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        float product = 0.0f;
#pragma unroll
        for (int i = 0; i < kElements; ++i)
          product += queries[r][i] * widen(key[u][i / PACK].at[i % PACK]);
        product = fold_team(product);
        const int mine = at + u * kTeams + team_number;
        const bool is_visible = mine < last && mine >= oldest[r] && mine <= own[r];
        scores[u] = is_visible ? product : -infinity();
        largest = fmaxf(largest, scores[u]);
      }
      const float base = largest == -infinity() ? 0.0f : largest;
      const float rescale = exp2f(team.largest[r] - base);
      team.largest[r] = largest;
      team.total[r] *= rescale;
#pragma unroll
      for (int i = 0; i < kElements; ++i) team.sums[r][i] *= rescale;
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const float weight = exp2f(scores[u] - base);
        team.total[r] += weight;
#pragma unroll
        for (int i = 0; i < kElements; ++i)
          team.sums[r][i] += weight * widen(value[u][i / PACK].at[i % PACK]);
      }
    }
  }

  join_warp(team);
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 < LANES)
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const int column = (i / PACK * LANES + lane) * PACK + i % PACK;
        if (column < WIDTH) shared_sums[warp][r][column] = team.sums[r][i];
      }
      if (lane == 0) {
        shared_largest[warp][r] = team.largest[r];
        shared_total[warp][r] = team.total[r];
      }
    }
  __syncthreads();

  float* parts = p.parts + (static_cast<int64>(blockIdx.x) * p.splits + blockIdx.y) * ROWS * WIDTH;
  for (int item = threadIdx.x; item < ROWS * WIDTH; item += THREADS) {
    const int r = item / WIDTH, column = item - r * WIDTH, row = tile.first_row + r;
    if (row >= p.rows) break;
    float largest = -infinity(), total = 0.0f, sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, shared_largest[w][r]);
    const float base = largest == -infinity() ? 0.0f : largest;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float factor = exp2f(shared_largest[w][r] - base);
      total += factor * shared_total[w][r];
      sum += factor * shared_sums[w][r][column];
    }
#if CLUSTER
    shared_sums[0][r][column] = sum;
    if (column == 0) joined_largest[r] = largest, joined_total[r] = total;
#else
    if (p.splits == 1) {
      write_result<TYPE>(p, tile, row, column, largest, total, sum);
    } else {
      parts[item] = sum;
      if (column == 0) {
        stats[r * 2] = largest;
        stats[r * 2 + 1] = total;
      }
    }
#endif
  }
#if CLUSTER
  join_cluster(p, tile, joined_largest, joined_total, shared_sums[0]);
#endif
}

}  // namespace ridgeline
