package waitreport

import "testing"

// Goroutines of the program that do something are told from those that wait in the library, for a lock or for others.
func TestActive(t *testing.T) {
	const recv = `goroutine 1 [syscall, 3 minutes]:
github.com/gorun-mpi/gorun/internal/rank/engine.(*Engine).Recv(0x249506e608, 0x1)
	/m/gorun/internal/rank/engine/recv.go:83 +0x34
github.com/gorun-mpi/gorun/mpi.RecvValue[...](0x0, 0x1)
	/m/gorun/mpi/value.go:12 +0x50
main.main()
	/home/me/main.go:11 +0x20

`
	for _, c := range []struct {
		what, dump string
		want       int
	}{
		{"one that receives", recv, 0},
		{"one that sleeps", recv + "goroutine 7 [sleep]:\ntime.Sleep(0x1)\n\t/go/time.go:1 +0x1\nmain.main()\n\t/home/me/main.go:1 +0x1\n", 1},
		{"one that computes", recv + "goroutine 7 [runnable]:\nmain.main()\n\t/home/me/main.go:1 +0x1\n", 1},
		{"one that waits for others", recv + "goroutine 7 [sync.WaitGroup.Wait, 2 minutes]:\nsync.(*WaitGroup).Wait(0x1)\n\t/go/wg.go:1 +0x1\nmain.main()\n\t/home/me/main.go:1 +0x1\n", 0},
		{"one that waits for a lock", recv + "goroutine 7 [semacquire]:\nsync.runtime_Semacquire(0x1)\n\t/go/s.go:1 +0x1\nmain.main()\n\t/home/me/main.go:1 +0x1\n", 0},
		{"one that waits for a channel", recv + "goroutine 7 [chan receive]:\nmain.f(0x1)\n\t/home/me/main.go:1 +0x1\ncreated by main.main in goroutine 1\n\t/home/me/main.go:1 +0x1\n", 1},
		{"a server that the program began", recv + "goroutine 7 [IO wait]:\nnet/http.Serve(0x1)\n\t/go/http.go:1 +0x1\ncreated by main.main in goroutine 1\n\t/home/me/main.go:1 +0x1\n", 1},
		{"Go's own", recv + "goroutine 7 [syscall]:\nos/signal.signal_recv()\n\t/go/sigqueue.go:1 +0x1\ncreated by os/signal.Notify.func1.1 in goroutine 1\n\t/go/signal.go:1 +0x1\n", 0},
		{"the library's own", recv + "goroutine 7 [select]:\ngithub.com/gorun-mpi/gorun/mpi.(*watch).run(0x1)\n\t/m/watch.go:1 +0x1\ncreated by github.com/gorun-mpi/gorun/mpi.(*watch).start in goroutine 1\n\t/m/watch.go:1 +0x1\n", 0},
	} {
		if got := Active([]byte(c.dump)); got != c.want {
			t.Errorf("%s: %d do something, want %d", c.what, got, c.want)
		}
	}
}
