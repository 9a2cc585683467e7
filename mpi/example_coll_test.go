package mpi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// show prints v on one rank and returns err.
func show(c *mpi.Comm, rank int, v any, err error) error {
	if c.Rank() == rank && err == nil {
		fmt.Println(v)
	}
	return err
}

func ExampleBarrier() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		err := mpi.Barrier(c)
		return show(c, 0, "all are here", err)
	})
	// Output: all are here
}

func ExampleBcast() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		buf := make([]float64, 2)
		if c.Rank() == 0 {
			buf[0], buf[1] = 3.5, 4
		}
		err := mpi.Bcast(c, buf, 0)
		return show(c, 2, buf, err)
	})
	// Output: [3.5 4]
}

func ExampleReduce() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		recv := make([]int, 2) // of use at the root only
		err := mpi.Reduce(c, []int{c.Rank(), 1}, recv, mpi.Sum, 0)
		return show(c, 0, recv, err)
	})
	// Output: [6 4]
}

func ExampleReduceInPlace() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		buf := []int{c.Rank() + 1}
		err := mpi.ReduceInPlace(c, buf, mpi.Prod, 3)
		return show(c, 3, buf, err)
	})
	// Output: [24]
}

func ExampleAllreduce() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		largest := []float64{0}
		err := mpi.Allreduce(c, []float64{float64(c.Rank()) / 2}, largest, mpi.Max)
		return show(c, 1, largest, err)
	})
	// Output: [1]
}

func ExampleAllreduceInPlace() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		buf := []uint8{1 << c.Rank()}
		err := mpi.AllreduceInPlace(c, buf, mpi.BOr)
		return show(c, 1, buf, err)
	})
	// Output: [7]
}

func ExampleGather() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		var recv []int
		if c.Rank() == 0 {
			recv = make([]int, 2*c.Size())
		}
		err := mpi.Gather(c, []int{c.Rank(), -c.Rank()}, recv, 0)
		return show(c, 0, recv, err)
	})
	// Output: [0 0 1 -1 2 -2]
}

func ExampleGatherInPlace() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		buf := []int{10 * c.Rank()}
		if c.Rank() == 0 {
			buf = []int{7, 0, 0} // its own contribution is at its place
		}
		err := mpi.GatherInPlace(c, buf, 0)
		return show(c, 0, buf, err)
	})
	// Output: [7 10 20]
}

func ExampleGatherv() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send := make([]int, c.Rank()+1)
		send[c.Rank()] = c.Rank()
		var recv, counts []int
		if c.Rank() == 0 {
			recv, counts = make([]int, 6), []int{1, 2, 3}
		}
		err := mpi.Gatherv(c, send, recv, counts, nil, 0)
		return show(c, 0, recv, err)
	})
	// Output: [0 0 1 0 0 2]
}

func ExampleGathervInPlace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return mpi.GathervInPlace(c, []int{8, 9}, nil, nil, 0)
		}
		buf := []int{1, 0, 0}
		err := mpi.GathervInPlace(c, buf, []int{1, 2}, []int{0, 1}, 0)
		return show(c, 0, buf, err)
	})
	// Output: [1 8 9]
}

func ExampleScatter() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		var send []int
		if c.Rank() == 0 {
			send = []int{10, 11, 12}
		}
		recv := []int{0}
		err := mpi.Scatter(c, send, recv, 0)
		return show(c, 2, recv, err)
	})
	// Output: [12]
}

func ExampleScatterInPlace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{0}
		if c.Rank() == 0 {
			buf = []int{5, 6}
		}
		err := mpi.ScatterInPlace(c, buf, 0)
		return show(c, 1, buf, err)
	})
	// Output: [6]
}

func ExampleScatterv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			recv := make([]int, 3)
			err := mpi.Scatterv(c, nil, nil, nil, recv, 0)
			return show(c, 1, recv, err)
		}
		return mpi.Scatterv(c, []int{1, 2, 3, 4}, []int{1, 3}, []int{0, 1}, make([]int, 1), 0)
	})
	// Output: [2 3 4]
}

func ExampleScattervInPlace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			buf := make([]int, 2)
			err := mpi.ScattervInPlace(c, buf, nil, nil, 0)
			return show(c, 1, buf, err)
		}
		return mpi.ScattervInPlace(c, []int{1, 2, 3}, []int{1, 2}, nil, 0)
	})
	// Output: [2 3]
}

func ExampleAllgather() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		recv := make([]int, 3)
		err := mpi.Allgather(c, []int{c.Rank() * c.Rank()}, recv)
		return show(c, 1, recv, err)
	})
	// Output: [0 1 4]
}

func ExampleAllgatherInPlace() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		buf := make([]int, 3)
		buf[c.Rank()] = c.Rank() + 1
		err := mpi.AllgatherInPlace(c, buf)
		return show(c, 1, buf, err)
	})
	// Output: [1 2 3]
}

func ExampleAllgatherv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		send := []string{"a", "bcd"}[c.Rank()]
		recv := make([]byte, 4)
		err := mpi.Allgatherv(c, []byte(send), recv, []int{1, 3}, nil)
		return show(c, 0, string(recv), err)
	})
	// Output: abcd
}

func ExampleAllgathervInPlace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []string{"a---", "-bcd"}[c.Rank()]
		p := []byte(buf)
		err := mpi.AllgathervInPlace(c, p, []int{1, 3}, []int{0, 1})
		return show(c, 0, string(p), err)
	})
	// Output: abcd
}

func ExampleAlltoall() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send := []int{10 * c.Rank(), 10*c.Rank() + 1, 10*c.Rank() + 2} // the i-th is for rank i
		recv := make([]int, 3)
		err := mpi.Alltoall(c, send, recv)
		return show(c, 1, recv, err)
	})
	// Output: [1 11 21]
}

func ExampleAlltoallInPlace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{10 * c.Rank(), 10*c.Rank() + 1}
		err := mpi.AlltoallInPlace(c, buf)
		return show(c, 1, buf, err)
	})
	// Output: [1 11]
}

func ExampleAlltoallv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		// Rank 0 keeps one and sends two; rank 1 sends one and keeps none.
		if c.Rank() == 0 {
			recv := make([]int, 2)
			err := mpi.Alltoallv(c, []int{1, 2, 3}, []int{1, 2}, nil, recv, []int{1, 1}, nil)
			return show(c, 0, recv, err)
		}
		return mpi.Alltoallv(c, []int{4}, []int{1, 0}, nil, make([]int, 2), []int{2, 0}, nil)
	})
	// Output: [1 4]
}

func ExampleAlltoallvInPlace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{c.Rank(), c.Rank(), c.Rank()}
		err := mpi.AlltoallvInPlace(c, buf, [][]int{{1, 2}, {2, 1}}[c.Rank()], nil)
		return show(c, 0, buf, err)
	})
	// Output: [0 1 1]
}

func ExampleScan() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		recv := []int{0}
		err := mpi.Scan(c, []int{c.Rank() + 1}, recv, mpi.Sum)
		return show(c, 2, recv, err)
	})
	// Output: [6]
}

func ExampleScanInPlace() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		buf := []int{c.Rank() + 1}
		err := mpi.ScanInPlace(c, buf, mpi.Prod)
		return show(c, 3, buf, err)
	})
	// Output: [24]
}

func ExampleExscan() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		offset := []int{0} // where this rank's share of a file begins
		err := mpi.Exscan(c, []int{100 + c.Rank()}, offset, mpi.Sum)
		return show(c, 3, offset, err)
	})
	// Output: [303]
}

func ExampleExscanInPlace() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		buf := []int{c.Rank() + 5}
		err := mpi.ExscanInPlace(c, buf, mpi.Max)
		return show(c, 2, buf, err)
	})
	// Output: [6]
}

func ExampleReduceScatterBlock() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		recv := []int{0}
		err := mpi.ReduceScatterBlock(c, []int{1, 10}, recv, mpi.Sum)
		return show(c, 1, recv, err)
	})
	// Output: [20]
}

func ExampleReduceScatterBlockInPlace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{1, 10}
		err := mpi.ReduceScatterBlockInPlace(c, buf, mpi.Sum)
		return show(c, 1, buf[:1], err)
	})
	// Output: [20]
}

func ExampleReduceScatter() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		counts := []int{1, 2}
		recv := make([]int, counts[c.Rank()])
		err := mpi.ReduceScatter(c, []int{1, 2, 3}, recv, counts, mpi.Sum)
		return show(c, 1, recv, err)
	})
	// Output: [4 6]
}

func ExampleReduceScatterInPlace() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		buf := []int{1, 2, 3}
		err := mpi.ReduceScatterInPlace(c, buf, []int{1, 2}, mpi.Sum)
		return show(c, 1, buf[:2], err)
	})
	// Output: [4 6]
}

func ExampleAllreduceValue() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		sum, err := mpi.AllreduceValue(c, c.Rank(), mpi.Sum)
		return show(c, 1, sum, err)
	})
	// Output: 6
}

func ExampleBcastValue() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		steps := 0
		if c.Rank() == 0 {
			steps = 1000 // as a flag may say
		}
		steps, err := mpi.BcastValue(c, steps, 0)
		return show(c, 2, steps, err)
	})
	// Output: 1000
}

func ExampleReduceValue() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		longest, err := mpi.ReduceValue(c, 0.5*float64(c.Rank()), mpi.Max, 0)
		return show(c, 0, longest, err)
	})
	// Output: 1.5
}

func ExampleScanValue() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		upToHere, err := mpi.ScanValue(c, c.Rank()+1, mpi.Sum)
		return show(c, 2, upToHere, err)
	})
	// Output: 6
}

func ExampleGatherAlloc() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		found := make([]int, c.Rank()) // no other rank knows how many
		for i := range found {
			found[i] = 10 * c.Rank()
		}
		all, counts, err := mpi.GatherAlloc(c, found, 0)
		return show(c, 0, fmt.Sprint(all, counts), err)
	})
	// Output: [10 20 20] [0 1 2]
}

func ExampleAllgatherAlloc() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		all, counts, err := mpi.AllgatherAlloc(c, []byte("abc")[:c.Rank()+1])
		return show(c, 1, fmt.Sprintf("%s %v", all, counts), err)
	})
	// Output: aababc [1 2 3]
}

func ExampleAlltoallAlloc() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send := make([][]int, c.Size())
		for to := range c.Rank() { // to lower ranks only
			send[to] = []int{c.Rank(), to}
		}
		recv, err := mpi.AlltoallAlloc(c, send)
		return show(c, 0, recv, err)
	})
	// Output: [[] [1 0] [2 0]]
}

func ExampleBcastObject() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		var settings map[string]float64
		if c.Rank() == 0 {
			settings = map[string]float64{"dt": 0.1, "nu": 3}
		}
		settings, err := mpi.BcastObject(c, settings, 0)
		return show(c, 2, settings, err)
	})
	// Output: map[dt:0.1 nu:3]
}

func ExampleGatherObjects() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		names, err := mpi.GatherObjects(c, fmt.Sprintf("worker %d", c.Rank()), 0)
		return show(c, 0, names, err)
	})
	// Output: [worker 0 worker 1 worker 2]
}

func ExampleAllgatherObjects() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		type part struct{ Files []string }
		all, err := mpi.AllgatherObjects(c, part{Files: make([]string, c.Rank())})
		return show(c, 1, len(all[2].Files), err)
	})
	// Output: 2
}

func ExampleAlltoallObjects() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		got, err := mpi.AlltoallObjects(c, []string{fmt.Sprint("from ", c.Rank(), " to 0"), fmt.Sprint("from ", c.Rank(), " to 1")})
		if c.Rank() == 1 {
			fmt.Println(got)
		}
		return err
	})
	// Output: [from 0 to 1 from 1 to 1]
}

func ExampleScatterObjects() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		var tasks []string
		if c.Rank() == 0 {
			tasks = []string{"watch", "compute", "write"}
		}
		mine, err := mpi.ScatterObjects(c, tasks, 0)
		return show(c, 1, mine, err)
	})
	// Output: compute
}
