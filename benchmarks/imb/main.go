// Imb runs the tests of the Intel MPI Benchmarks, components IMB-MPI1 and IMB-NBC, on gorun. Names of tests, options
// and columns are theirs, so that scripts which read their output read this. The code is gorun's own.
//
//	gorun -np 4 ./benchmarks/imb                                all tests of IMB-MPI1
//	gorun -np 4 ./benchmarks/imb PingPong Allreduce -npmin 4    some of them, on 4 ranks only
//	gorun -np 4 ./benchmarks/imb IMB-NBC Iallreduce             nonblocking collectives, with their overlap
//
// The component is IMB-MPI1 unless the first argument, or the name of the program, is IMB-NBC. Without names all tests
// of the component run, except Uniband, Biband and those with Source or _pure in their names: -include adds tests,
// -exclude leaves some out, -list names them all. Each runs on -npmin, twice, four times as many ranks and so on, and on
// all; tests between two ranks run on two. With -multi 0 or 1 as many groups as fit run at once; -multi 1 shows each.
//
//	-npmin N              the fewest ranks (default 2)
//	-msglog [MIN:]MAX     sizes are 0 and 2^MIN ... 2^MAX (default 0:22)
//	-msglen FILE          sizes, one a line, such as 100, 4k or 1M
//	-zero_size on|off     whether -msglog has a size of 0 (default on)
//	-iter N[,VOLUME]      at most N repetitions (default 1000), and of VOLUME megabytes (default 40)
//	-iter_policy WORD     dynamic: -time bounds them, too (default); off: always N; multiple_np: a multiple of the ranks;
//	                      auto: that for tests with a root, dynamic for others
//	-time SECONDS         at most so long for a size (default 10)
//	-mem GIGABYTES        sizes whose buffers need more than that on a rank are not run (default 1)
//	-off_cache MB[,LINE]  repetitions take buffers in turn that fill twice a cache of MB megabytes, with gaps of a LINE
//	                      (default 128 bytes); -1 is 4 megabytes
//	-map PxQ              ranks are numbered along the columns of a grid of P times Q
//	-window_size N        messages under way in Uniband and Biband (default 256)
//	-sync on|off          a barrier before each repetition of a collective (default on)
//	-imb_barrier on|off   barriers are made of messages (default off)
//	-root_shift on|off    another root in each repetition (default off)
//	-warm_up on|off       what is timed has run before (default on; with off, -iter_policy off runs nothing before)
//	-input FILE           names of tests, one a line
//	-check on|off         each repetition is checked: its data are known before it and read after it, outside the time; a
//	                      column says how many elements were wrong, as "defects" of their builds with CHECK (default off)
//
// -thread_level is read, as any will do. Data are bytes, and float32 in reductions: -data_type, -red_data_type,
// -contig_type and -msg_pause are not here.
//
// Times are microseconds, a megabyte is 10^6 bytes. Collectives are timed without the barriers between them. In
// IMB-NBC, t_pure is the call and its Wait, t_CPU a computation of that length, t_ovrl the computation between the
// call and its Wait, on the rank where that is longest; the overlap is (t_pure + t_CPU - t_ovrl) / max(t_pure, t_CPU).
package main

import (
	"bufio"
	"os"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	o := arguments.Parse("imb", func([]string) (*options, error) { return parse(os.Args) })
	mpi.Run(func(c *mpi.Comm) error {
		w := bufio.NewWriter(os.Stdout)
		if err := imb(c, o, w); err != nil {
			return err
		}
		return w.Flush()
	})
}
