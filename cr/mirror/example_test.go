package mirror_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/cr/mirror/tcpworld"
)

// processes stands for as many processes, each on a node of its own, of which some are spares. It calls f with the world of each.
func processes(ranks, spares int, f func(world *mirror.World, tcp *tcpworld.World) error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := tcpworld.Coordinate(context.Background(), ln, tcpworld.Config{Ranks: ranks, Secret: secret}); err != nil {
			fmt.Println(err)
		}
	})
	var joined []*tcpworld.World
	for i := range ranks + spares {
		tcp, err := tcpworld.Join(context.Background(), ln.Addr().String(), tcpworld.Options{Secret: secret, Node: fmt.Sprint("node", i)})
		if err != nil {
			fmt.Println(err)
			return
		}
		joined = append(joined, tcp)
	}
	for _, tcp := range joined {
		all.Go(func() {
			world := mirror.New(tcp)
			defer world.Close()
			if err := f(world, tcp); err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
}

// A rank is lost after step 3. A spare takes its place, and all go on from there.
func ExampleRun() {
	var killed sync.Once
	processes(3, 1, func(world *mirror.World, tcp *tcpworld.World) error {
		power := func() { tcp.Close() } // cut, as far as others can see
		err := mirror.Run(world, func(ctx context.Context) error {
			step, x := 0, make([]float64, 1000)
			d, err := mirror.Open(world, "state", mirror.Options{Policy: mirror.Ring(1)})
			if err != nil {
				return err
			}
			defer d.Close()
			if err := cmpErr(d.Region("step", &step), d.Region("x", &x)); err != nil {
				return err
			}
			epoch, err := d.Restore(ctx)
			if err != nil {
				return err
			}
			if world.Rank() == 1 && epoch > 0 {
				fmt.Println("life", world.Life(), "goes on from step", step, "with", x[0])
			}
			for step < 5 {
				step++
				x[0] = float64(step * step)
				if err := d.Start(ctx); err != nil {
					return err
				}
				if _, err := d.Commit(ctx); err != nil {
					return err
				}
				if step == 3 && world.Rank() == 1 {
					killed.Do(power)
				}
			}
			return nil
		})
		if world.Rank() == 1 && world.Life() == 1 {
			return nil // the one that was killed
		}
		return err
	})
	// Output: life 2 goes on from step 3 with 9
}

// example calls f on two ranks, which have a description with one region.
func example(o mirror.Options, f func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error) {
	processes(2, 0, func(world *mirror.World, _ *tcpworld.World) error {
		return mirror.Run(world, func(ctx context.Context) error {
			x := []int{world.Rank()}
			d, err := mirror.Open(world, "state", o)
			if err != nil {
				return err
			}
			defer d.Close()
			if err := d.Region("x", &x); err != nil {
				return err
			}
			if _, err := d.Restore(ctx); err != nil {
				return err
			}
			return f(ctx, world, d, x)
		})
	})
}

func ExampleOpen() {
	processes(3, 0, func(world *mirror.World, _ *tcpworld.World) error {
		return mirror.Run(world, func(ctx context.Context) error {
			// The small state often and near, the large one seldom and coded.
			near, err := mirror.Open(world, "near", mirror.Options{Policy: mirror.Ring(1)})
			if err != nil {
				return err
			}
			defer near.Close()
			coded, err := mirror.Open(world, "coded", mirror.Options{Policy: mirror.Code{Data: 2, Parity: 1}, Copies: 1})
			if err != nil {
				return err
			}
			defer coded.Close()
			if world.Rank() == 0 {
				fmt.Println("survives", coded.State().Promise)
			}
			return nil
		})
	})
	// Output: survives the loss of any 1 node(s)
}

func ExampleDescription_Region() {
	example(mirror.Options{}, func(_ context.Context, world *mirror.World, d *mirror.Description, _ []int) error {
		if world.Rank() == 0 {
			var text string
			fmt.Println(d.Region("text", &text))
		}
		return nil
	})
	// Output: mirror: Region of "state", rank 0: region "text": string has pointers in it (string): only numbers, booleans, and arrays, structs and one slice of these
}

func ExampleDescription_Start() {
	example(mirror.Options{}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
		x[0] = 7
		if err := d.Start(ctx); err != nil {
			return err
		}
		x[0] = 8 // the copy has 7
		if _, err := d.Commit(ctx); err != nil {
			return err
		}
		_, err := d.Restore(ctx)
		if world.Rank() == 0 {
			fmt.Println(x)
		}
		return err
	})
	// Output: [7]
}

func ExampleDescription_Commit() {
	example(mirror.Options{}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
		if err := d.Start(ctx); err != nil {
			return err
		}
		test, cancel := context.WithCancel(ctx)
		cancel() // a test, which does not wait
		if _, err := d.Commit(test); err != nil {
			return err
		}
		done, err := d.Commit(ctx)
		if world.Rank() == 0 {
			fmt.Println("done:", done)
		}
		return err
	})
	// Output: done: true
}

func ExampleDescription_Restore() {
	example(mirror.Options{}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
		if err := d.Start(ctx); err != nil {
			return err
		}
		if _, err := d.Commit(ctx); err != nil {
			return err
		}
		x[0] = 99 // a mistake
		epoch, err := d.Restore(ctx)
		if world.Rank() == 1 {
			fmt.Println("epoch", epoch, "has", x)
		}
		return err
	})
	// Output: epoch 1 has [1]
}

func ExampleDescription_State() {
	example(mirror.Options{}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
		if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
			return err
		}
		if s := d.State(); world.Rank() == 0 {
			fmt.Println("epoch", s.Epoch, "busy", s.Busy)
		}
		return nil
	})
	// Output: epoch 1 busy false
}

func ExampleDescription_Stats() {
	example(mirror.Options{}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
		if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
			return err
		}
		if s := d.Stats(); world.Rank() == 0 {
			fmt.Println(s.Epochs, "epoch of", s.Bytes, "bytes, as much on the largest rank:", s.Bytes == s.BytesMost)
			fmt.Println("times were measured:", s.Start > 0 && s.Whole >= s.Start && s.SendMost > 0)
		}
		return nil
	})
	// Output:
	// 1 epoch of 4104 bytes, as much on the largest rank: true
	// times were measured: true
}

func ExampleDescription_Close() {
	example(mirror.Options{}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
		if err := cmpErr(d.Start(ctx), commit(ctx, d), d.Close()); err != nil {
			return err
		}
		again, err := mirror.Open(world, "state", mirror.Options{}) // it is still there
		if err != nil {
			return err
		}
		if err := again.Region("x", &x); err != nil {
			return err
		}
		epoch, err := again.Restore(ctx)
		if world.Rank() == 0 {
			fmt.Println("epoch", epoch)
		}
		return err
	})
	// Output: epoch 1
}

func ExampleDescription_Remove() {
	dir, _ := os.MkdirTemp("", "mirror-")
	defer os.RemoveAll(dir)
	example(mirror.Options{Target: mirror.File(dir)}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
		return cmpErr(d.Start(ctx), commit(ctx, d), d.Remove())
	})
	left, _ := filepath.Glob(filepath.Join(dir, "state", "*"))
	fmt.Println("left:", len(left))
	// Output: left: 0
}

func ExampleFile() {
	dir, _ := os.MkdirTemp("", "mirror-")
	defer os.RemoveAll(dir)
	for range 2 { // two worlds, one after the other
		example(mirror.Options{Target: mirror.File(dir)}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
			if world.Rank() == 0 {
				fmt.Println("begins with epoch", d.State().Epoch)
			}
			return cmpErr(d.Start(ctx), commit(ctx, d))
		})
	}
	// Output:
	// begins with epoch 0
	// begins with epoch 1
}

func ExampleMapped() {
	dir, _ := os.MkdirTemp("", "mirror-") // of a file system on persistent memory
	defer os.RemoveAll(dir)
	example(mirror.Options{Target: mirror.Mapped(dir)}, func(ctx context.Context, world *mirror.World, d *mirror.Description, x []int) error {
		if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
			return err
		}
		if world.Rank() == 0 {
			files, err := filepath.Glob(filepath.Join(dir, "state", "rank-00000", "*.data"))
			fmt.Println("its own image and a replica:", len(files))
			return err
		}
		return nil
	})
	// Output: its own image and a replica: 2
}

func ExampleMemory() {
	fmt.Println(mirror.Memory())
	// Output: memory
}

func ExampleTarget_String() {
	fmt.Println(mirror.File("/scratch/me"))
	// Output: file /scratch/me
}

func ExampleNone() {
	fmt.Println(mirror.None{}, "survives", mirror.None{}.Promise())
	// Output: none survives the loss of any 0 node(s)
}

func ExampleFunc() {
	// The node half-way round has the replica.
	far := mirror.Func{Name: "far", Copies: 1, To: func(rank int, p mirror.Placement) []int {
		return []int{(p.Of[rank] + len(p.Nodes)/2) % len(p.Nodes)}
	}}
	groups, err := far.Groups(mirror.Placement{Nodes: []mirror.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}, Of: []int{0, 1, 2, 3}})
	fmt.Println(groups, err)
	// Output: [{[0] [2]} {[1] [3]} {[2] [0]} {[3] [1]}] <nil>
}

// A program without Run enters lives by itself.
func ExampleWorld_Join() {
	processes(2, 0, func(world *mirror.World, _ *tcpworld.World) error {
		ctx, err := world.Join(context.Background())
		if err != nil {
			return err
		}
		if world.Rank() == 0 {
			fmt.Println("rank", world.Rank(), "of", world.Size(), "in life", world.Life(), "over:", ctx.Err() != nil)
		}
		return world.Leave(context.Background(), nil)
	})
	// Output: rank 0 of 2 in life 1 over: false
}

func ExampleNew() {
	processes(2, 0, func(_ *mirror.World, tcp *tcpworld.World) error {
		world := mirror.New(tcp)
		defer world.Close()
		return mirror.Run(world, func(ctx context.Context) error {
			if world.Rank() == 1 {
				fmt.Println("rank 1 of", world.Size())
			}
			return nil
		})
	})
	// Output: rank 1 of 2
}
