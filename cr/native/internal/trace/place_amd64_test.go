package trace

import (
	"runtime"
	"testing"
)

// TestPlaceWhileBusy makes a place on a thread that has something to do first, which is about places, too.
func TestPlaceWhileBusy(t *testing.T) {
	if err := SameIDs(); err != nil {
		t.Skip(err)
	}
	threads := NewThreads(1)
	defer threads.Close()
	first, err := threads.Place([]int{5}, false)
	if err != nil {
		t.Fatal(err)
	}
	busy := make(chan bool)
	second := make(chan *Place)
	go threads.Do(func() {
		close(busy)
		for threads.threads[0].load.Load() < 2 {
			runtime.Gosched()
		}
		threads.Belong(first, []int{6}, 1)
	})
	<-busy
	go func() {
		p, err := threads.Place([]int{5}, false)
		if err != nil {
			t.Error(err)
		}
		second <- p
	}()
	if p := <-second; p == first {
		t.Error("the same id twice in one place")
	}
	if threads.PlaceOf(first.PID) != first {
		t.Error("its first process is elsewhere")
	}
}
