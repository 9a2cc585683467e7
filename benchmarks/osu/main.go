// Osu runs the tests of the OSU micro-benchmarks on gorun. Names of tests, options and columns are theirs, so that
// scripts which read their output read this. The code is gorun's own.
//
//	gorun -np 2 ./benchmarks/osu osu_latency
//	gorun -np 4 ./benchmarks/osu osu_allreduce -m 4:65536 -i 100 -x 10 -f
//	gorun -np 4 ./benchmarks/osu osu_iallreduce -t 10
//
// The first argument names the test; where the program itself has the name of a test, as by a link, there is none.
// Messages: osu_latency, osu_bw, osu_bibw between two ranks; osu_multi_lat, osu_mbw_mr between pairs of ranks, of
// which one is in the first half and one in the second. Collectives: osu_allgather, osu_allgatherv, osu_allreduce,
// osu_alltoall, osu_alltoallv, osu_barrier, osu_bcast, osu_gather, osu_gatherv, osu_reduce, osu_reduce_scatter,
// osu_scatter, osu_scatterv, and with an i before the name the nonblocking ones, with their overlap.
//
//	-m [MIN:]MAX    sizes are powers of two from MIN to MAX bytes (default 1:4194304, latencies from 0, collectives to 1048576)
//	-i N            repetitions of a size
//	-x N            repetitions before these, which do not count
//	-f              collectives: the least and most time of a rank and the repetitions, or the parts of a nonblocking call
//	-W N            osu_bw, osu_bibw, osu_mbw_mr: messages under way (default 64)
//	-R 0|1          osu_mbw_mr: whether the column of messages a second is there (default 1)
//	-p N            osu_multi_lat, osu_mbw_mr: pairs (default as many as there are)
//	-t N            nonblocking collectives: how often the computation calls MPI_Test (default 0)
//	-M BYTES        sizes whose buffers need more on a rank are not run (default 512 MB)
//	-c              each repetition is checked: its data are known before it and read after it, outside the time; a line
//	                ends with Pass or Fail, and the test fails with the first size that does
//	-b KIND         osu_bw, osu_bibw, osu_mbw_mr: the messages of a window have a single buffer (default) or multiple
//	-k ROOT         the root of collectives that have one: fixed:RANK (default fixed:0), or rotate
//
// Letters may stand together, and before their values: -fc -i100. Each option has its long name, too: --validation.
// The columns are those of version 5.9.
//
// Times are microseconds, a megabyte is 10^6 bytes. The time of osu_latency is that of one way, of a collective the
// mean of all ranks. The overlap is 100 - (overall - compute) / pure in percent, and 0 at least.
package main

import (
	"os"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	o := arguments.Parse("osu", func([]string) (*options, error) { return parse(os.Args) })
	mpi.Run(func(c *mpi.Comm) error { return osu(c, o, os.Stdout) })
}
