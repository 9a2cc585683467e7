// Package ranks is a program for tests of transports: ranks send each other messages of all lengths, several at a time, until a file is there, and
// compare each byte. Programs of several modules have it, each with the providers that it imports.
package ranks

import (
	"fmt"
	"os"

	"github.com/gorun-mpi/gorun/mpi"
)

// lengths are those of the messages that one rank sends another in a round: short, eager, and by rendezvous.
var lengths = []int{0, 1, 100, 3000, 20_000, 200_000, 7}

// Main is the program's main. Its argument is the file.
func Main() { mpi.Run(ranks) }

func ranks(c *mpi.Comm) error {
	for round := 0; ; round++ {
		if err := exchange(c, round); err != nil {
			return fmt.Errorf("rank %d: round %d: %w", c.Rank(), round, err)
		}
		over := []bool{false}
		if c.Rank() == 0 {
			_, err := os.Stat(os.Args[1])
			over[0] = err == nil
			fmt.Println("round", round)
		}
		if err := mpi.Bcast(c, over, 0); err != nil {
			return err
		}
		if over[0] {
			fmt.Println("all rounds of rank", c.Rank(), "are right")
			return nil
		}
	}
}

// exchange sends all other ranks the messages of a round. They have one tag: that of each length shows that none was overtaken.
func exchange(c *mpi.Comm, round int) error {
	var rs []mpi.Request
	got := map[int][][]byte{}
	for peer := range c.Size() {
		for i, n := range lengths {
			buf := make([]byte, n)
			got[peer] = append(got[peer], buf)
			r, err := mpi.Irecv(c, buf, peer, 1)
			if err != nil {
				return err
			}
			s, err := mpi.Isend(c, content(c.Rank(), round, i), peer, 1)
			if err != nil {
				return err
			}
			rs = append(rs, r, s)
		}
	}
	if _, err := mpi.Waitall(rs); err != nil {
		return err
	}
	for peer, all := range got {
		for i, b := range all {
			if string(b) != string(content(peer, round, i)) {
				return fmt.Errorf("message %d of rank %d is not what was sent", i, peer)
			}
		}
	}
	return nil
}

// content is what a rank sends.
func content(rank, round, i int) []byte {
	b := make([]byte, lengths[i])
	for at := range b {
		b[at] = byte(rank*31 + round*7 + i*3 + at/251 + at)
	}
	return b
}
