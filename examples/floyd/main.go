// Floyd finds the shortest ways between all pairs of nodes of a graph, by the algorithm of Floyd and Warshall, on the devices of
// all ranks:
//
//	gorun -np 2 -cr ./examples/floyd -n 512 -devices 2
//
// Each rank has a block of rows of the matrix of distances, and each of its virtual devices a block of these. In step k all need
// row k: its owner broadcasts it. The matrix is registered as it is: where its rows are valid, and on how many
// devices, does not matter to a restart.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 512, "nodes")
	devices := flag.Int("devices", 2, "virtual devices of each rank")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return floyd(c, *n, *devices, os.Stdout) })
}

// relax takes the way over node k where that is shorter, for all nodes and the rows of a block.
var relax = device.NewKernel(
	device.OpenCL("relax", `
		kernel void relax(global int *dist, global const int *pivot, int k) {
			size_t to = get_global_id(0), at = get_global_id(1) * get_global_size(0);
			int way = dist[at + k] + pivot[to];
			if (way < dist[at + to] && to != k)
				dist[at + to] = way;
		}`),
	device.CUDA("relax", `
		extern "C" __global__ void relax(int *dist, const int *pivot, int k) {
			size_t n = (size_t)gridDim.x * blockDim.x;
			size_t to = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
			size_t at = ((size_t)blockIdx.y * blockDim.y + threadIdx.y) * n;
			int way = dist[at + k] + pivot[to];
			if (way < dist[at + to] && to != k)
				dist[at + to] = way;
		}`),
	device.Go("relax", func(w device.Work, dist, pivot []int32, k int32) {
		n := w.Global[0]
		for from := w.From[1]; from < w.To[1]; from++ {
			row := dist[from*n:][:n]
			for to, end := w.Range(0); to < end; to++ {
				if way := row[k] + pivot[to]; way < row[to] {
					row[to] = way
				}
			}
		}
	}))

func floyd(c *mpi.Comm, n, devices int, out io.Writer) error {
	if n < 1 || devices < 1 {
		return errors.New("-n and -devices must be positive")
	}
	ds, err := device.Virtual(devices)
	if err != nil {
		return err
	}
	defer ds.Close()
	first, end := n*c.Rank()/c.Size(), n*(c.Rank()+1)/c.Size() // this rank's rows
	dist, pivot := device.NewArray[int32](end-first, n), device.NewArray[int32](n)
	if err := edges(dist, first); err != nil {
		return err
	}
	state, k := cr.On(c), 0
	if err := errors.Join(state.Register("k", &k), state.Register("dist", dist)); err != nil {
		return err
	}
	for owner := 0; k < n; k++ {
		if err := state.Point(); err != nil {
			return err
		}
		for k >= n*(owner+1)/c.Size() {
			owner++
		}
		if err := broadcast(c, dist, pivot, k-first, owner); err != nil {
			return err
		}
		if err := step(ds, dist, pivot, k); err != nil {
			return err
		}
	}
	wrong, err := check(c, dist, first)
	if err != nil {
		return err
	}
	return app.Verdict(c, out, wrong)
}

// broadcast gives all ranks the owner's row.
func broadcast(c *mpi.Comm, dist, pivot *device.Array[int32], row, owner int) error {
	p, err := pivot.HostW()
	if err != nil {
		return err
	}
	if c.Rank() == owner {
		d, err := dist.Rows(row, row+1).Host()
		if err != nil {
			return err
		}
		copy(p, d)
	}
	return mpi.Bcast(c, p, owner)
}

// step runs a kernel on each device. They compute at the same time; nothing waits for them here.
func step(ds device.Devices, dist, pivot *device.Array[int32], k int) error {
	dims := dist.Dims()
	bounds := ds.Split(dims[0])
	for v, d := range ds {
		from, to := bounds[v], bounds[v+1]
		if _, err := d.Run(relax, []int{dims[1], to - from}, nil, dist.Rows(from, to).InOut(), pivot.In(), k); err != nil {
			return err
		}
	}
	return nil
}

// edge is the length of the edge from i to j.
func edge(i, j int) int32 {
	if i == j {
		return 0
	}
	x := uint32(i)*2654435761 ^ uint32(j)*2246822519
	x ^= x >> 15
	return int32(x*2654435761>>20) + 1
}

// edges sets the distances without a node between.
func edges(dist *device.Array[int32], first int) error {
	d, err := dist.HostW()
	n := dist.Dims()[1]
	for i := range d {
		d[i] = edge(first+i/n, i%n)
	}
	return err
}

// check compares the rank's first row with the distances by Dijkstra's algorithm.
func check(c *mpi.Comm, dist *device.Array[int32], first int) (wrong, err error) {
	d, err := dist.Host()
	n := dist.Dims()[1]
	bad := 0
	if err == nil && len(d) > 0 {
		for to, want := range dijkstra(first, n) {
			if d[to] != want {
				bad++
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if bad, err = mpi.AllreduceValue(c, bad, mpi.Sum); bad > 0 {
		wrong = fmt.Errorf("%d distances are wrong", bad)
	}
	return wrong, err
}

func dijkstra(from, n int) []int32 {
	dist, done := make([]int32, n), make([]bool, n)
	for to := range dist {
		dist[to] = edge(from, to)
	}
	for range n {
		near := -1
		for i := range dist {
			if !done[i] && (near < 0 || dist[i] < dist[near]) {
				near = i
			}
		}
		done[near] = true
		for to := range dist {
			dist[to] = min(dist[to], dist[near]+edge(near, to))
		}
	}
	return dist
}
