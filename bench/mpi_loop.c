/* A plain loop of in-place MPI_Allreduce, as in OSU's benchmark: a barrier, one call, and the time
 * of the slowest rank.
 * mpi_loop WARMUPS SAMPLES BYTES...: prints "BYTES MS MS MS ..." for each size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int warmups = atoi(argv[1]), samples = atoi(argv[2]);
  for (int size = 3; size < argc; ++size) {
    const long bytes = atol(argv[size]);
    float* data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    for (long i = 0; i < bytes / 4; ++i) data[i] = (float)(i % 17) - 8;
    if (rank == 0) printf("%ld", bytes);
    int more = warmups;
    for (double began = MPI_Wtime(); more > 0;) { /* at least 50 ms, as in ridgeline */
      MPI_Allreduce(MPI_IN_PLACE, data, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      more = more > 1 ? more - 1 : MPI_Wtime() - began < 0.05;
      MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int sample = 0; sample < samples; ++sample) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double began = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, data, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      double ms = 1e3 * (MPI_Wtime() - began), slowest = 0;
      MPI_Reduce(&ms, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (rank == 0) printf(" %.6f", slowest);
    }
    if (rank == 0) printf("\n"), fflush(stdout);
    free(data);
  }
  MPI_Finalize();
  return 0;
}
