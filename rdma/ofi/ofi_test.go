package ofi

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/providertest"
)

// everywhere are libfabric's providers in software.
var everywhere = []string{"tcp;ofi_rxm/127.0.0.1", "net/127.0.0.1", "shm", "udp;ofi_rxd/127.0.0.1"}

// each runs a test with each of libfabric's providers.
func each(t *testing.T, test func(t *testing.T, open providertest.Open)) {
	if _, err := load(); err != nil {
		t.Skip(err)
	}
	for _, name := range everywhere {
		t.Run(name, func(t *testing.T) {
			test(t, func() (provider.Device, error) { return Provider{}.Open(name) })
		})
	}
}

func TestProvider(t *testing.T) { each(t, providertest.Run) }

func FuzzPacket(f *testing.F) {
	f.Add((&packet{Kind: data, Opcode: provider.Send, To: 1, Cookie: 2, Payload: []byte("x")}).append(nil))
	f.Add((&packet{Kind: data, Opcode: provider.Write, Bits: apart, Length: 3, Places: []place{{1, 2, 3}}}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p packet
		if p.parse(b) != nil {
			return
		}
		if again := append(p.append(nil), p.Payload...); string(again) != string(b) {
			t.Errorf("%x, was %x", again, b)
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add(make([]byte, 15))
	f.Add([]byte("123456789012\x03net\x00\x0215"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, s, err := parseAddress(b); err == nil {
			_, _ = parsePulse(s[1])
		}
	})
}

// TestProcess tests that libfabric leaves the process what it was: Go's handlers for faults are there, and no file is left.
func TestProcess(t *testing.T) {
	each(t, func(t *testing.T, open providertest.Open) {
		d, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		defer func() {
			if recover() == nil {
				t.Error("no fault")
			}
		}()
		var nowhere *int
		*nowhere = 1
	})
	if files, _ := filepath.Glob(filepath.Join(shmDir, seenPrefix()+strconv.Itoa(os.Getpid())+"-*")); len(files) > 0 {
		t.Error("left:", files)
	}
}

// TestSweep tests that files of processes that were killed are removed, and no others.
func TestSweep(t *testing.T) {
	file := func(end string) (path string) {
		path = filepath.Join(shmDir, strings.TrimPrefix(shmName(), shmScheme)+end)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		return path
	}
	dead, alive := file("-dead"), file("-alive")
	there, err := newPulse([]byte(shmScheme + filepath.Base(alive)))
	if err != nil {
		t.Fatal(err)
	}
	defer there.close()
	sweep()
	if _, err := os.Stat(dead); err == nil {
		t.Error("the file of a dead process is there")
	}
	if _, err := os.Stat(alive); err != nil {
		t.Error(err)
	}
}

// TestGarbage tests that messages make none.
func TestGarbage(t *testing.T) {
	each(t, func(t *testing.T, open providertest.Open) {
		if n := providertest.Garbage(t, open); n >= 1 {
			t.Errorf("%.1f allocations a message", n)
		}
	})
}
