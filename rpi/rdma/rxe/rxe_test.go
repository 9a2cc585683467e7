package rxe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/guest"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/providertest"
	"github.com/gorun-mpi/gorun/rpi/rdma/ranktest"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtualtest"
)

// inside is set in a guest.
const inside = "GORUN_INSIDE"

// Modules are those of the kernel that a guest needs.
var modules = []string{"crc32_generic", "rdma_rxe"}

// TestGuest runs the other tests in guests, where there is a device: first those of one, then those of two (twoGuests). Between them the first one's last job
// goes on on this machine's kernel, over TCP, and leaves for the others.
func TestGuest(t *testing.T) {
	k, files := begin(t)
	parcels, folder := t.TempDir(), t.TempDir()
	env := []string{inside + "=1", elsewhere + "=" + folder}
	for _, name := range []string{"GORUN_RXE_CHECKPOINTS", "GORUN_RXE_RESTARTS", "GORUN_RXE_SEED", "GORUN_HOSTS_RESTARTS"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	run(t, k, guest.Options{Program: files[tests], Args: []string{"-test.v", "-test.run=" + os.Getenv("GORUN_GUEST_RUN")}, Env: env, Files: files, Folder: parcels})
	if os.Getenv("GORUN_GUEST_RUN") == "" {
		ranktest.Pass(t, ranktest.Options{Gorun: files["/bin/gorun"], Fabrics: [][]string{ranktest.TCP}}, folder, filepath.Join(parcels, parcel), filepath.Join(parcels, returned))
		twoGuests(t, k, files, parcels, env)
	}
}

// tests is where a guest has this program.
const tests = "/bin/tests"

// begin finds the kernel of guests, and builds what they run: by the paths that it has there.
func begin(t testing.TB) (*guest.Kernel, map[string]string) {
	t.Helper()
	if os.Getenv(inside) != "" {
		t.Skip("this is a guest")
	}
	k, err := guest.Find()
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	dir := t.TempDir()
	files := map[string]string{tests: filepath.Join(dir, "tests"), "/bin/gorun": filepath.Join(dir, "gorun"), "/bin/ranks": filepath.Join(dir, "program"), "/bin/rsh": filepath.Join(dir, "rsh")}
	if err := guest.Tests(t.Context(), ".", files[tests]); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"cmd/gorun", "rpi/rdma/ranktest/program", "internal/testing/guest/rsh"} {
		build := exec.Command("go", "build", "-o", dir+"/", "github.com/gorun-mpi/gorun/"+what)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return k, files
}

// run runs a guest that has a device.
func run(t testing.TB, k *guest.Kernel, o guest.Options) {
	t.Helper()
	var out bytes.Buffer
	status, err := guest.Run(t.Context(), k, equipped(o, &out))
	t.Log(out.String())
	if err != nil || status != 0 {
		t.Errorf("status %d, %v", status, err)
	}
}

// equipped adds to a guest what all of this package have.
func equipped(o guest.Options, out io.Writer) guest.Options {
	o.Modules, o.Soft, o.Memory, o.Out = modules, "rxe0", 1024, out
	return o
}

// TestProvider tests what package provider promises.
func TestProvider(t *testing.T) {
	list, err := Provider{}.List()
	if errors.Is(err, errNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", list)
	providertest.Run(t, func() (provider.Device, error) { return Provider{}.Open("") })
}

// TestFlight takes checkpoints in mid-flight. Each life is over soft-RoCE or over soft, in turn and not.
func TestFlight(t *testing.T) {
	if _, err := (Provider{}).List(); errors.Is(err, errNone) {
		t.Skip(err)
	}
	const ranks = 2
	for i, n := 0, testenv.Number(t, "GORUN_RXE_CHECKPOINTS", 12); n > 0; i++ {
		count := min(n, 10)
		n -= count
		virtualtest.Run(t, virtualtest.Options{Seed: uint64(i), Ranks: ranks, Size: 20_000, Checkpoints: count, Between: 60,
			Open: func(life int) (list []provider.Device, err error) {
				for range ranks {
					var d provider.Device
					if (life*7+i)%3 == 2 {
						d, err = soft.Provider{}.Open("127.0.0.1")
					} else {
						d, err = Provider{}.Open("")
					}
					if err != nil {
						return nil, fmt.Errorf("life %d: %w", life, err)
					}
					list = append(list, d)
				}
				return list, nil
			}})
	}
}

// elsewhere is where the guest's last job has its folder, there and here.
const elsewhere = "GORUN_ELSEWHERE"

// parcel is the file in the shared folder that the guest's last job is left in, and returned where it comes back.
const (
	parcel   = "parcel.tar.zst"
	returned = "returned.tar.zst"
)

// TestLeave leaves a job of a guest for TestGuest.
func TestLeave(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("not in a guest")
	}
	o := ranktest.Options{Gorun: "/bin/gorun", Program: "/bin/ranks", Fabrics: [][]string{ranktest.RDMA("rxe", "rxe0")}}
	ranktest.Leave(t, o, os.Getenv(elsewhere), filepath.Join(guest.Folder, parcel))
}

// TestRanks runs a job of a guest whose ranks speak over soft-RoCE, kills it, and has it go on over that, over soft and over TCP.
func TestRanks(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("not in a guest")
	}
	fabrics := [][]string{ranktest.TCP, ranktest.RDMA("soft", "127.0.0.1"), ranktest.RDMA("rxe", "rxe0")}
	ranktest.Run(t, ranktest.Options{Gorun: "/bin/gorun", Program: "/bin/ranks", Fabrics: fabrics,
		Restarts: testenv.Number(t, "GORUN_RXE_RESTARTS", 2), Seed: uint64(testenv.Number(t, "GORUN_RXE_SEED", 1))}) // 1: over soft-RoCE first, then over TCP
}

// TestGarbage tests that messages make none.
func TestGarbage(t *testing.T) {
	if _, err := (Provider{}).List(); errors.Is(err, errNone) {
		t.Skip(err)
	}
	if n := providertest.Garbage(t, func() (provider.Device, error) { return Provider{}.Open("") }); n >= 1 {
		t.Errorf("%.1f allocations a message", n)
	}
}
