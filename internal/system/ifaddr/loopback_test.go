package ifaddr

import (
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A machine without IPv4 has a loopback all the same.
func TestLoopback(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("%v: install iproute2", err)
	}
	for script, want := range map[string]string{
		"ip link set lo up": "127.0.0.1",
		"ip link set lo up\nip address delete 127.0.0.1/8 dev lo": "::1",
		"ip link set lo down": "127.0.0.1", // the error of the first use is the one that people know
	} {
		var got netip.Addr
		done := make(chan string)
		go func() {
			runtime.LockOSThread() // for good: the thread ends with the goroutine, and the namespace with it
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				done <- "no network namespaces here: " + err.Error()
				return
			}
			for line := range strings.Lines(script) {
				if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
					done <- line + ": " + string(out)
					return
				}
			}
			got = Loopback()
			done <- ""
		}()
		if why := <-done; why != "" {
			t.Skip(why)
		}
		if got.String() != want {
			t.Errorf("%s: %v, want %s", script, got, want)
		}
	}
}
