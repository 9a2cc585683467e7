package providertest

import (
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Garbage returns how many allocations a short message makes, from its receive and its send to both completions. Ranks that wait busily have
// no processor for a collector.
func Garbage(t testing.TB, open Open) float64 {
	t.Helper()
	a, b := newEnd(t, open, false), newEnd(t, open, false)
	connect(t, a, b)
	sends := []provider.SendRequest{{Opcode: provider.Send, Flags: provider.Inline | provider.Signalled, Segments: a.at(0, 8)}}
	takes := []provider.ReceiveRequest{{Segments: b.at(0, 8)}}
	var seen [4]provider.Completion
	message := func() {
		b.receive(t, takes...)
		a.send(t, sends...)
		for n := 0; n < 2; {
			for _, e := range []*end{a, b} {
				got, err := e.queue.Poll(seen[:])
				check(t, err)
				n += got
			}
		}
	}
	for range 1000 { // tables have their sizes then
		message()
	}
	return testing.AllocsPerRun(1000, message)
}
