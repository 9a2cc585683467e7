package agent

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// What a rank that stands has written is on its way to the head when passOn returns: whole lines, half a line, and more
// than is read at once.
func TestPassOn(t *testing.T) {
	ours, theirs, err := oob.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := oob.NewConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	head, err := oob.NewConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer head.Close()
	defer conn.Close()
	a := newAgent(0, conn)
	r := &rankProc{rank: 3}
	var writers [3]*os.File
	for stream := 1; stream <= 2; stream++ {
		p := pipes{}
		if p.ours[stream], p.theirs[stream], err = pipe(); err != nil {
			t.Fatal(err)
		}
		if err := syscall.SetNonblock(p.ours[stream], true); err != nil {
			t.Fatal(err)
		}
		writers[stream] = os.NewFile(uintptr(p.theirs[stream]), "rank")
		r.outputs[stream] = newOutput(os.NewFile(uintptr(p.ours[stream]), "rank output"))
		r.out.Add(1)
		go a.copyOutput(r, stream)
	}
	for round := range 10 {
		want := [3]string{1: strings.Repeat("a line\n", 5000) + fmt.Sprint("half ", round), 2: "another half"}
		for stream := 1; stream <= 2; stream++ {
			if _, err := writers[stream].WriteString(want[stream]); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.passOn(nil); err != nil {
			t.Fatal(err)
		}
		a.head.Send(oob.Msg{Kind: oob.Written, From: 3, To: oob.Head})
		var got [3]string
		for {
			m, err := head.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.Kind == oob.Written {
				break
			}
			got[m.A] += string(m.Data)
			a.out.Give(len(m.Data) + stdio.FrameCost)
		}
		if got != want {
			t.Fatalf("round %d: %d and %d bytes, want %d and %d", round, len(got[1]), len(got[2]), len(want[1]), len(want[2]))
		}
	}
	for stream := 1; stream <= 2; stream++ {
		writers[stream].Close()
	}
	r.out.Wait()
	for range 3 {
		if err := r.passOn(nil); err != nil { // there is nothing more
			t.Error(err)
		}
	}
}
