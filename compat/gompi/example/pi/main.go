// Pi adds up a series on all ranks, as a program for gompi does: it imports that package, and nothing of gorun. Rank
// 0 prints the result at the end.
//
//	gorun -np 2 -cr ./example/pi
//
// With -hold FILE rank 0 stands still halfway until FILE exists, and the others wait for its message: time to take a
// checkpoint by hand.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	mpi "github.com/sbromberger/gompi"
)

func main() {
	rounds := flag.Int("rounds", 100, "how often the ranks add up what they have")
	terms := flag.Int("terms", 100_000, "terms of a rank in a round")
	file := flag.String("hold", "", "stand still halfway until `FILE` exists")
	flag.Parse()

	mpi.Start(false)
	world := mpi.NewCommunicator(nil)
	sum := make([]float64, 1)
	for round := range *rounds {
		if round == *rounds/2 && *file != "" {
			hold(world, *file)
		}
		part, total := []float64{terms4(world, round, *terms)}, make([]float64, 1)
		if err := world.AllreduceFloat64s(total, part, mpi.OpSum, 0); err != nil {
			fmt.Println(err)
			world.Abort(1)
		}
		sum[0] += total[0]
	}
	if world.Rank() == 0 {
		fmt.Printf("pi %.15f\n", sum[0])
	}
	mpi.Stop()
}

// terms4 returns the sum of a rank's terms of 4 - 4/3 + 4/5 - ... in a round.
func terms4(world mpi.Communicator, round, n int) (sum float64) {
	first := (round*world.Size() + world.Rank()) * n
	for k := first; k < first+n; k++ {
		sum += float64(4-k%2*8) / float64(2*k+1)
	}
	return sum
}

// hold lets all ranks wait until a file exists.
func hold(world mpi.Communicator, file string) {
	const tag = 1
	if world.Rank() > 0 {
		world.RecvByte(0, tag)
		return
	}
	fmt.Println("holding", os.Getpid())
	for {
		if _, err := os.Stat(file); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for to := 1; to < world.Size(); to++ {
		world.SendByte(1, to, tag)
	}
}
