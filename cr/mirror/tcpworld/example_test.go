package tcpworld_test

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/cr/mirror/tcpworld"
)

var secret = []byte("from a file that only I can read")

// coordinate runs a coordinator beside, and returns its address.
func coordinate(ranks int, all *sync.WaitGroup) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	all.Go(func() {
		if err := tcpworld.Coordinate(context.Background(), ln, tcpworld.Config{Ranks: ranks, Secret: secret}); err != nil {
			fmt.Println(err)
		}
	})
	return ln.Addr().String()
}

// member is a process that joins and runs f.
func member(addr string, f func(ctx context.Context, tcp *tcpworld.World, world *mirror.World) error) {
	tcp, err := tcpworld.Join(context.Background(), addr, tcpworld.Options{Secret: secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	world := mirror.New(tcp)
	defer world.Close()
	if err := mirror.Run(world, func(ctx context.Context) error { return f(ctx, tcp, world) }); err != nil {
		fmt.Println(err)
	}
}

func ExampleCoordinate() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() {
		done <- tcpworld.Coordinate(context.Background(), ln, tcpworld.Config{Ranks: 1, Secret: secret})
	}()
	member(ln.Addr().String(), func(context.Context, *tcpworld.World, *mirror.World) error { return nil })
	fmt.Println(<-done)
	// Output: <nil>
}

func ExampleJoin() {
	var all sync.WaitGroup
	addr := coordinate(1, &all)
	tcp, err := tcpworld.Join(context.Background(), addr, tcpworld.Options{Secret: secret, Node: "a", Rack: "1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	world := mirror.New(tcp)
	fmt.Println(mirror.Run(world, func(context.Context) error {
		fmt.Println("rank", world.Rank())
		return nil
	}))
	world.Close()
	all.Wait()
	_, err = tcpworld.Join(context.Background(), addr, tcpworld.Options{})
	fmt.Println(err)
	// Output:
	// rank 0
	// <nil>
	// tcpworld: no secret: any process that reaches the address could join
}

func ExampleWorld_Send() {
	var all sync.WaitGroup
	addr := coordinate(2, &all)
	for range 2 {
		all.Go(func() {
			member(addr, func(ctx context.Context, tcp *tcpworld.World, world *mirror.World) error {
				if world.Rank() == 0 {
					return tcp.Send(ctx, 1, 7, []byte("hello"))
				}
				b, err := tcp.Recv(ctx, 0, 7)
				fmt.Printf("%s\n", b)
				return err
			})
		})
	}
	all.Wait()
	// Output: hello
}

func ExampleWorld_Recv() {
	var all sync.WaitGroup
	addr := coordinate(2, &all)
	for range 2 {
		all.Go(func() {
			member(addr, func(ctx context.Context, tcp *tcpworld.World, world *mirror.World) error {
				other := 1 - world.Rank()
				if err := tcp.Send(ctx, other, 0, []byte{byte(world.Rank())}); err != nil {
					return err
				}
				b, err := tcp.Recv(ctx, other, 0)
				if world.Rank() == 0 {
					fmt.Println("rank 0 got", b)
				}
				return err
			})
		})
	}
	all.Wait()
	// Output: rank 0 got [1]
}
