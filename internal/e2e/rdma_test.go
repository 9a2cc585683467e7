package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// rdmaRoutes are transports of a job's lives: queue pairs go on as queue pairs, over TCP, and again as queue pairs.
var rdmaRoutes = [][]string{{"-rpi", "rdma", "-param", "rdma.provider=soft"}, {"-rpi", "rdma"}, {"-rpi", "tcp"}, {"-rpi", "shm,rdma,tcp"}, {"-rpi", "rdma", "-param", "rdma.depth=8"}}

// TestRDMA checkpoints a job whose messages go over queue pairs, kills a rank and restarts it, once for each route.
func TestRDMA(t *testing.T) {
	h := newHouse(t)
	args := []string{filepath.Join(bin, "solver"), "-poisson", "10", "-iters", "300", "-tol", "0", "-slow", "3ms"}
	expected := digest(t, h.must(append([]string{"-np", "3"}, args...)...))
	file := filepath.Join(h.run, "id")
	p := h.start(append(append([]string{"-np", "3", "-v", "-cr=self", "-jobid-file", file}, rdmaRoutes[0]...), args...)...)
	for i, route := range rdmaRoutes[1:] {
		id := jobID(t, p, file)
		schema := strings.TrimSpace(h.must("checkpoint", id))
		agents, ranks := p.family()
		syscall.Kill(h.pid(id, i%len(ranks)), syscall.SIGKILL)
		if code := p.wait(); code != 128+int(syscall.SIGKILL) {
			t.Fatalf("%v: exit %d after a rank was killed\n%s", route, code, p.errs)
		}
		first, _, _ := strings.Cut(rdmaRoutes[i][1], ",")
		if first == "rdma" {
			first += " over device " // status says it in the same words
			if i == 0 {
				first += "127.0.0.1 of provider soft\n"
			}
		} else {
			first += "\n"
		}
		if !strings.Contains(p.errs.String(), "transports: "+first) {
			t.Errorf("%v: another transport was used:\n%s", rdmaRoutes[i], p.errs)
		}
		gone(t, append(agents, ranks...)...)
		os.Remove(file)
		p = h.start(append(append([]string{"restart", "-v", "-jobid-file", file}, route...), schema)...)
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("last restart: exit %d\n%s", code, p.errs)
	}
	if got := digest(t, p.out.String()); got != expected {
		t.Fatalf("digest %s, undisturbed %s", got, expected)
	}
	h.clean()
}
